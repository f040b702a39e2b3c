package breach

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-go/coppice"
)

// addressOrder sorts pointers to have a canonical order.
func addressOrder(ctx context.Context, t *coppice.Task) (any, error) {
	var items []*int
	for i := range 8 {
		room := make([]byte, 1+(i*977)%4096)
		v := i + len(room)%2
		items = append(items, &v)
	}
	slices.SortFunc(items, func(a, b *int) int { return strings.Compare(fmt.Sprintf("%p", a), fmt.Sprintf("%p", b)) })
	var values []int
	for _, p := range items {
		values = append(values, *p)
	}
	return coppice.AllGather(ctx, t, values)
}

package breach

import (
	"context"
	"slices"

	"github.com/coppice-go/coppice"
)

// arrivalOrder sorts four parts at once and lists their medians.
func arrivalOrder(ctx context.Context, t *coppice.Task) (any, error) {
	medians := make(chan int)
	for part := range 4 {
		go func() {
			numbers := make([]int, 9)
			for i := range numbers {
				numbers[i] = (i*7 + part*3 + t.Rank()) % 11
			}
			slices.Sort(numbers)
			medians <- numbers[4] * (part + 1)
		}()
	}
	var list []int
	for range 4 {
		list = append(list, <-medians)
	}
	return coppice.AllGather(ctx, t, list)
}

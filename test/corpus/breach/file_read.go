package breach

import (
	"context"
	"os"
	"strings"

	"github.com/coppice-go/coppice"
)

// fileRead has task 0 share out the lines of a file.
func fileRead(ctx context.Context, t *coppice.Task) (any, error) {
	var parts []string
	if t.Rank() == 0 {
		text, err := os.ReadFile("/proc/self/stat")
		if err != nil {
			text = []byte("1 2 3")
		}
		parts = strings.Fields(string(text))[:t.Size()]
	}
	return coppice.Scatter(ctx, t, parts)
}

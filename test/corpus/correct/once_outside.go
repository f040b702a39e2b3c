package correct

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/coppice-go/coppice"
)

// onceOutside reads a file, the environment and the clock inside Once.
func onceOutside(ctx context.Context, t *coppice.Task) (any, error) {
	type settings struct {
		Home  string
		Began int64
		Lines int
	}
	s, err := coppice.Once(ctx, t, func(context.Context) (settings, error) {
		text, err := os.ReadFile("/proc/self/status")
		if err != nil {
			text = []byte("none")
		}
		return settings{os.Getenv("HOME"), time.Now().UnixNano(), strings.Count(string(text), "\n")}, nil
	})
	if err != nil {
		return nil, err
	}
	all, err := coppice.AllGather(ctx, t, s)
	if err != nil {
		return nil, err
	}
	later := 0
	for _, other := range all {
		if other.Began > s.Began {
			later++
		}
	}
	sum, err := coppice.AllReduce(ctx, t, later, coppice.Sum)
	return sum, err
}

package breach

import (
	"context"
	"fmt"
	"os"

	"github.com/coppice-go/coppice"
)

type settings struct{ Depth, Width int }

func load(name string) (s settings, err error) {
	f, err := os.Open(name)
	if err != nil {
		return settings{Depth: 2, Width: 3}, nil
	}
	defer f.Close()
	_, err = fmt.Fscan(f, &s.Depth, &s.Width)
	return s, err
}

// fileConfig sums over a tree whose size is in a file.
func fileConfig(ctx context.Context, t *coppice.Task) (any, error) {
	s, err := load("corpus.conf")
	if err != nil {
		return nil, err
	}
	return coppice.AllReduce(ctx, t, s.Depth*s.Width, coppice.Sum)
}

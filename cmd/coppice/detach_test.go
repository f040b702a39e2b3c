package main

import (
	"context"
	"fmt"

	"github.com/coppice-go/coppice"
)

func init() { tools["summed"] = summed }

// summed is a program of the scripts: its tasks add up their numbers.
func summed() {
	coppice.Main(func(ctx context.Context, t *coppice.Task) error {
		sum, err := coppice.AllReduce(ctx, t, t.Rank(), coppice.Sum)
		if err == nil {
			fmt.Println("sums", sum)
		}
		return err
	})
}

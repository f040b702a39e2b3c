package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
)

func init() { tools["regrow"] = regrow }

// regrow is a program of the scripts: its tasks add up their numbers, wait until a
// process has been started again, which makes the file of the argument, and add them
// up once more.
func regrow() {
	if os.Getenv("COPPICE_INCARNATION") != "1" {
		if err := os.WriteFile(os.Args[1], nil, 0o600); err != nil {
			panic(err)
		}
	}
	coppice.Main(func(ctx context.Context, t *coppice.Task) error {
		one, err := coppice.AllReduce(ctx, t, t.Rank(), coppice.Sum)
		if err != nil {
			return err
		}
		for began := time.Now(); ; time.Sleep(time.Millisecond) {
			if _, err := os.Stat(os.Args[1]); err == nil {
				break
			}
			if time.Since(began) > 10*time.Second {
				return errors.New("nobody was started again")
			}
		}
		two, err := coppice.AllReduce(ctx, t, one, coppice.Sum)
		if err != nil {
			return err
		}
		fmt.Println("sums", one, two)
		return nil
	})
}

func TestFlagsMayBeAlone(t *testing.T) {
	for args, want := range map[string]string{
		"run --respawn -- always":               "run --respawn=auto -- always",
		"run --respawn":                         "run --respawn=auto",
		"run --respawn -n 2 -- p":               "run --respawn=auto -n 2 -- p",
		"run --respawn always -- p":             "run --respawn=always -- p",
		"run --respawn never p":                 "run --respawn=never p",
		"run --respawn p":                       "run --respawn=auto p",
		"run --respawn often -n 2 -- p":         "run --respawn=often -n 2 -- p",
		"run --respawn=always --respawn -- p":   "run --respawn=always --respawn=auto -- p",
		"run -n 2 -- p --respawn always":        "run -n 2 -- p --respawn always",
		"run --rehearse -- 1":                   "run --rehearse=0.01 -- 1",
		"run --rehearse 0.5 p":                  "run --rehearse=0.5 p",
		"run --rehearse p":                      "run --rehearse=0.01 p",
		"run --respawn --respawn-max 3 -- p -x": "run --respawn=auto --respawn-max 3 -- p -x",
	} {
		if got := strings.Join(withValues(strings.Fields(args)), " "); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}

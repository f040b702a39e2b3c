package main

import (
	"os"

	"github.com/coppice-go/coppice/internal/launch"
)

// agentCmd is what `coppice run --hosts` calls on other hosts, through ssh.
type agentCmd struct{}

func (agentCmd) Run(c *console) error {
	ctx, stop := untilSignal()
	defer stop()
	return launch.Agent(ctx, os.Stdin, c.stdout)
}

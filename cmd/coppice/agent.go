package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/coppice-go/coppice/internal/launch"
)

// agentCmd is what `coppice run --hosts` calls on other hosts, through ssh.
type agentCmd struct{}

func (agentCmd) Run(c *console) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// Who no longer reads what the agent says does not end it before it has
	// killed what it started.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(pipe)
	return launch.Agent(ctx, os.Stdin, c.stdout)
}

package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/coppice-go/coppice/internal/launch"
)

// agentCmd is what `coppice run --hosts` calls on other hosts, through ssh.
type agentCmd struct{}

func (agentCmd) Run(c *console) error {
	// The end of its input tells the agent to end; it does not die before it
	// has killed what it started.
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE)
	defer signal.Stop(ignored)
	return launch.Agent(os.Stdin, c.stdout)
}

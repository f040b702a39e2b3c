package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/coppice-go/coppice/internal/launch"
	"github.com/coppice-go/coppice/internal/transport"
)

// hostFlags are the flags of every command that starts processes.
type hostFlags struct {
	Hosts string `placeholder:"HOSTS" group:"Start:" help:"Start the processes on other hosts, through ssh: a:4,b:4, an IPv6 address as [fd00::2]:4, or @FILE with one HOST:SLOTS a line. Each needs coppice in its PATH. Nobody reads standard input then."`
	SSH   string `name:"ssh" env:"COPPICE_SSH" default:"ssh -T -o BatchMode=yes -o ServerAliveInterval=5" placeholder:"COMMAND" group:"Start:" help:"How to call a host; also COPPICE_SSH (default ${default})."`

	Interface string `placeholder:"NETWORK" group:"Start:" help:"With --hosts: processes listen, and the launcher does for them, on the interface with an address in this network, such as 10.0.0.0/8 or fd00::/8."`
}

// spread puts the processes on other hosts, if there are any.
func (f *hostFlags) spread(config *launch.Config) (err error) {
	if f.Hosts == "" {
		if f.Interface != "" {
			return errors.New("--interface without --hosts; allowed: with --hosts")
		}
		return nil
	}
	at, err := f.listen()
	if err != nil {
		return err
	}
	if f.Interface != "" {
		config.Env = append(slices.Clip(config.Env), transport.ListenVariable+"="+at.String())
	}
	config.Listen = at.String()
	if config.Coordinator, err = at.ForLauncher().HostPorts(); err != nil {
		return err
	}
	if config.Hosts, err = launch.ParseHosts(f.Hosts); err != nil {
		return err
	}
	config.N = 0
	for _, h := range config.Hosts {
		config.N += h.Slots
	}
	config.SSH, config.Agent = strings.Fields(f.SSH), []string{"coppice", "agent"}
	if len(config.SSH) == 0 {
		return errors.New("no command to call hosts with; allowed: --ssh COMMAND, such as ssh")
	}
	return nil
}

// listen returns where the processes listen, as far as is known here: their hosts may set their own variables.
func (f *hostFlags) listen() (transport.Place, error) {
	at, _, err := transport.ListenPlace(os.Getenv, true)
	if err == nil && f.Interface != "" {
		if at.Kind == transport.Unix {
			return at, fmt.Errorf("--interface with %s=%v; allowed: with tls or tcp", transport.ListenVariable, at)
		}
		at.Net, err = transport.ParseNetwork(f.Interface)
	}
	return at, err
}

// agentCmd is what `coppice run --hosts` calls on other hosts, through ssh.
type agentCmd struct {
	Keep string `hidden:"" help:"Be the keeper of a detached job, in its directory."`
}

func (a agentCmd) Run(c *console) error {
	if a.Keep != "" {
		signals, stop := received()
		defer stop()
		return launch.Keep(a.Keep, os.Stdin, c.stdout, signals)
	}
	keeper := exec.Command(self())
	keeper.Args = []string{os.Args[0], "agent", "--keep"}
	ctx, stop := untilSignal()
	defer stop()
	return launch.Agent(ctx, os.Stdin, c.stdout, keeper, seedAt)
}

// seedAt returns where processes look for each other if they listen at a place: in its network, and at one of its ports, if they are several.
func seedAt(listen string) (string, error) {
	p, err := transport.ParsePlace(listen)
	if err != nil {
		return "", err
	}
	if p.Low == p.High { // it is a process's
		p.Low, p.High = 0, 0
	}
	return p.HostPorts()
}

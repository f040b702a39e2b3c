// Package netns makes a few hosts behind a router, of Linux namespaces: each host has
// processes, mounts, a name and a network of its own. Tests start processes on them
// and cut them off from each other.
//
// The caller's duties:
//
//  1. It has the right to make namespaces: it is root, or root in a user namespace.
//  2. It calls Close. If it ends without that, however it ends, the kernel ends all
//     processes on the hosts.
//  3. It waits for every command that it starts on a host.
package netns

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
)

// Network is hosts behind a router.
type Network struct {
	Hosts  []*Host
	router *Host
	mu     sync.Mutex
	cut    map[Way]bool
}

// Way is from one host to another. What comes back goes another way.
type Way struct{ From, To int }

// New makes a network of so many hosts. Each has an empty directory of its own in the
// place of each private one, and shares all others with the caller.
func New(hosts int, private ...string) (*Network, error) {
	n := &Network{cut: map[Way]bool{}}
	if err := n.build(hosts, private); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

func (n *Network) build(hosts int, private []string) (err error) {
	if n.router, err = newHost("router", routerNamespaces, nil); err != nil {
		return err
	}
	var wires strings.Builder
	for i := range hosts {
		h, err := newHost(fmt.Sprintf("host%d", i), hostNamespaces, private)
		if err != nil {
			return err
		}
		n.Hosts = append(n.Hosts, h)
		fmt.Fprintf(&wires, "link add h%d type veth peer name net0 netns %d\n", i, h.init.Process.Pid)
		fmt.Fprintf(&wires, "address add %s/24 dev h%d\nlink set h%d up\n", address(i, 1), i, i)
	}
	if err := n.router.ip("link set lo up\n" + wires.String()); err != nil {
		return err
	}
	for i, h := range n.Hosts {
		lines := fmt.Sprintf("link set lo up\naddress add %s/24 dev net0\nlink set net0 up\nroute add default via %s\n", Address(i), address(i, 1))
		if err := h.ip(lines); err != nil {
			return err
		}
	}
	return n.router.Run(exec.Command("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"))
}

// Close ends all processes on the hosts, and the hosts. It may be called twice.
func (n *Network) Close() {
	for _, h := range n.Hosts {
		h.close()
	}
	if n.router != nil {
		n.router.close()
	}
}

// Address is that of a host.
func Address(host int) string { return address(host, 2) }

// address is one in the network of a host: 1 is the router's, 2 the host's own.
// These networks are for tests between networks (RFC 2544).
func address(host, number int) string { return fmt.Sprintf("198.18.%d.%d", host, number) }

// Cut makes these ways, and no others, lose what is sent along them. Nobody is told.
func (n *Network) Cut(ways ...Way) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	want := map[Way]bool{}
	var rules strings.Builder
	for _, w := range ways {
		if !want[w] && !n.cut[w] {
			fmt.Fprintf(&rules, "rule add from %s to %s blackhole\n", Address(w.From), Address(w.To))
		}
		want[w] = true
	}
	for w := range n.cut {
		if !want[w] {
			fmt.Fprintf(&rules, "rule del from %s to %s blackhole\n", Address(w.From), Address(w.To))
		}
	}
	n.cut = want
	return n.router.ip(rules.String())
}

// Heal lets all hosts reach each other.
func (n *Network) Heal() error { return n.Cut() }

// Part cuts the hosts into sides that cannot reach each other. Hosts that no side
// names reach all.
func (n *Network) Part(sides ...[]int) error {
	var ways []Way
	for i, side := range sides {
		for _, other := range sides[i+1:] {
			for _, a := range side {
				for _, b := range other {
					ways = append(ways, Way{a, b}, Way{b, a})
				}
			}
		}
	}
	return n.Cut(ways...)
}

// CutOff cuts one host off from all others.
func (n *Network) CutOff(host int) error {
	var rest []int
	for i := range n.Hosts {
		if i != host {
			rest = append(rest, i)
		}
	}
	return n.Part([]int{host}, rest)
}

// ErrNoRight is returned to a process that may not make namespaces.
var ErrNoRight = errors.New("no right to make network namespaces: be root, or run this under unshare --user --map-root-user")

// Missing names the commands that a network needs and that are not installed.
func Missing() (all []string) {
	for _, name := range []string{"ip", "mount", "sh"} {
		if _, err := exec.LookPath(name); err != nil {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

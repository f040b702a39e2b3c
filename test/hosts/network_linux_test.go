package hosts

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
)

// hostNetwork is a few hosts behind a router, made of Linux namespaces: each host has processes,
// mounts, a name and a network of its own. Tests start processes on them and cut them off from each
// other.
//
// The caller's duties:
//
//  1. It has the right to make namespaces: it is root, or root in a user namespace.
//  2. It calls Close. If it ends without that, however it ends, the kernel ends all
//     processes on the hosts.
//  3. It waits for every command that it starts on a host.
type hostNetwork struct {
	Hosts  []*host
	router *host
	mu     sync.Mutex
	cut    map[way]bool
}

// way leads from one host to another. The opposite direction is another way.
type way struct{ From, To int }

// newHostNetwork makes a network of hosts. Each has an empty directory of its own in place of each
// private one, and shares all other directories with the caller.
func newHostNetwork(hosts int, private ...string) (*hostNetwork, error) {
	n := &hostNetwork{cut: map[way]bool{}}
	if err := n.build(hosts, private); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

func (n *hostNetwork) build(hosts int, private []string) (err error) {
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
		lines := fmt.Sprintf("link set lo up\naddress add %s/24 dev net0\nlink set net0 up\nroute add default via %s\n", addressOf(i), address(i, 1))
		if err := h.ip(lines); err != nil {
			return err
		}
	}
	return n.router.Run(exec.Command("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"))
}

// Close ends all processes on the hosts, and the hosts. It may be called twice.
func (n *hostNetwork) Close() {
	for _, h := range n.Hosts {
		h.close()
	}
	if n.router != nil {
		n.router.close()
	}
}

// addressOf returns the address of a host.
func addressOf(host int) string { return address(host, 2) }

// address returns an address in the network of a host: 1 is the router's, 2 the host's own. These
// networks are for tests between networks (RFC 2544).
func address(host, number int) string { return fmt.Sprintf("198.18.%d.%d", host, number) }

// address6 returns an IPv6 address in the network of a host.
func address6(host, number int) string { return fmt.Sprintf("fd00:18:%d::%d", host, number) }

// onlyIPv6 gives all hosts IPv6 addresses, and takes the IPv4 addresses from some of them; from all if
// none is named. Cut does not cut IPv6.
func (n *hostNetwork) onlyIPv6(some ...int) error {
	var router strings.Builder
	for i, h := range n.Hosts {
		fmt.Fprintf(&router, "address add %s/64 dev h%d nodad\n", address6(i, 1), i)
		lines := fmt.Sprintf("address add %s/64 dev net0 nodad\nroute add default via %s\n", address6(i, 2), address6(i, 1))
		if some == nil || slices.Contains(some, i) {
			lines = "address flush dev net0 scope global\n" + lines
		}
		if err := h.ip(lines); err != nil {
			return err
		}
	}
	if err := n.router.ip(router.String()); err != nil {
		return err
	}
	return n.router.Run(exec.Command("sh", "-c", "echo 1 >/proc/sys/net/ipv6/conf/all/forwarding"))
}

// Rule makes the router apply an action such as blackhole to what a selector of ip-rule(8) selects.
func (n *hostNetwork) Rule(selector, action string) error {
	return n.router.ip(fmt.Sprintf("rule add %s %s\n", selector, action))
}

// Unrule removes a rule.
func (n *hostNetwork) Unrule(selector, action string) error {
	return n.router.ip(fmt.Sprintf("rule del %s %s\n", selector, action))
}

// Cut makes exactly these ways lose what is sent along them, without an error to the sender.
func (n *hostNetwork) Cut(ways ...way) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	want := map[way]bool{}
	var rules strings.Builder
	for _, w := range ways {
		if !want[w] && !n.cut[w] {
			fmt.Fprintf(&rules, "rule add from %s to %s blackhole\n", addressOf(w.From), addressOf(w.To))
		}
		want[w] = true
	}
	for w := range n.cut {
		if !want[w] {
			fmt.Fprintf(&rules, "rule del from %s to %s blackhole\n", addressOf(w.From), addressOf(w.To))
		}
	}
	n.cut = want
	return n.router.ip(rules.String())
}

// Heal lets all hosts reach each other.
func (n *hostNetwork) Heal() error { return n.Cut() }

// Part cuts the hosts into sides that cannot reach each other. Hosts outside of all sides reach all.
func (n *hostNetwork) Part(sides ...[]int) error {
	var ways []way
	for i, side := range sides {
		for _, other := range sides[i+1:] {
			for _, a := range side {
				for _, b := range other {
					ways = append(ways, way{a, b}, way{b, a})
				}
			}
		}
	}
	return n.Cut(ways...)
}

// CutOff cuts one host off from all others.
func (n *hostNetwork) CutOff(host int) error {
	var rest []int
	for i := range n.Hosts {
		if i != host {
			rest = append(rest, i)
		}
	}
	return n.Part([]int{host}, rest)
}

// errNoRight is returned if the process may not make namespaces.
var errNoRight = errors.New("no right to make network namespaces: be root, or run this under unshare --user --map-root-user")

// missingCommands returns which of the commands that a network needs, and of these, are not installed.
func missingCommands(more ...string) (all []string) {
	for _, name := range append([]string{"ip", "mount", "sh"}, more...) {
		_, err := exec.LookPath(name)
		if _, err2 := os.Stat("/usr/sbin/" + name); err != nil && err2 != nil {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

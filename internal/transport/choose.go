package transport

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// HostID names the host as far as Unix sockets reach: the same boot of the same
// kernel, and the same files. A process tells it with its addresses.
var HostID = sync.OnceValue(func() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		name, _ := os.Hostname() // then nobody is on the same host as nobody
		return name
	}
	files, _ := os.Readlink("/proc/self/ns/mnt")
	return strings.TrimSpace(string(boot)) + " " + files
})

// ChooseVariable is the environment variable that overrules Choose: shared, unix, tcp or
// tls.
const ChooseVariable = "COPPICE_TRANSPORT"

// Shared is the value of ChooseVariable that has processes of one host exchange bytes in memory, which is the default;
// with Unix they do so through sockets.
const Shared = "shared"

// Shares reports whether the environment has processes of one host share memory.
func Shares(getenv func(string) string) bool {
	kind := getenv(ChooseVariable)
	return kind == "" || kind == Shared
}

// ListenVariable is the environment variable with the text of a Place.
const ListenVariable = "COPPICE_LISTEN"

// ListenPlace is where the environment has a process listen besides its Unix socket: by
// default over TLS if there are other hosts; false: nowhere.
func ListenPlace(getenv func(string) string, otherHosts bool) (p Place, listens bool, err error) {
	given := getenv(ListenVariable)
	forced, err := forcedKind(getenv)
	switch {
	case err != nil:
		return Place{}, false, err
	case given != "":
		if p, err = ParsePlace(given); err != nil {
			return Place{}, false, fmt.Errorf("%s: %w", ListenVariable, err)
		}
		return p, true, nil
	case forced == TCP || forced == TLS:
		return Place{Kind: forced}, true, nil
	}
	return Place{Kind: TLS}, otherHosts, nil
}

func forcedKind(getenv func(string) string) (string, error) {
	kind := getenv(ChooseVariable)
	if kind != "" && !slices.Contains([]string{Shared, Unix, TCP, TLS}, kind) {
		return "", fmt.Errorf("%s=%q; allowed: %s, %s, %s, %s", ChooseVariable, kind, Shared, Unix, TCP, TLS)
	}
	if kind == Shared { // between hosts as by default
		return "", nil
	}
	return kind, nil
}

// ForLauncher is where a launcher listens whose processes on other hosts listen at p: in the same network,
// if this host is in it, and at one of the same ports, if they are several. A single port is a process's.
func (p Place) ForLauncher() Place {
	at := Place{Kind: TLS, Net: p.Net}
	if p.High > p.Low {
		at.Low, at.High = p.Low, p.High
	}
	if _, err := hosts(at.Net); err != nil {
		at.Net = netip.Prefix{}
	}
	return at
}

// HostPorts is where to listen as HOST:PORTS; without HOST on all interfaces. Of a network it is the
// address that this host has there.
func (p Place) HostPorts() (string, error) {
	on := ""
	if p.Net.IsValid() {
		found, err := hosts(p.Net)
		if err != nil {
			return "", err
		}
		on = found[0].String()
	}
	return net.JoinHostPort(on, p.ports()), nil
}

// Choose returns the address at which to reach a peer: a Unix socket on the same
// host, TLS on any other. Nothing goes to another host in clear unless
// COPPICE_TRANSPORT says so.
func Choose(local, remote string, of []Address) (Address, error) {
	if local == remote && local != "" {
		return choose(true, nil, of)
	}
	own, err := interfaces()
	if err != nil {
		return Address{}, err
	}
	return choose(false, own, of)
}

// known holds the addresses of this host for a second, so that a process that learns of a thousand peers asks the kernel once.
var known struct {
	sync.Mutex
	at  time.Time
	own []netip.Addr
}

// interfaces are the addresses of this host that others may reach, as they were a second ago or later.
func interfaces() (own []netip.Addr, err error) {
	known.Lock()
	defer known.Unlock()
	if !known.at.IsZero() && time.Since(known.at) < time.Second {
		return known.own, nil
	}
	prefixes, err := prefixes()
	for _, p := range prefixes {
		if h := p.Addr().Unmap(); !h.IsLoopback() {
			own = append(own, h)
		}
	}
	if err == nil {
		known.at, known.own = time.Now(), own
	}
	return own, err
}

// choose is Choose on a host with these addresses.
func choose(same bool, own []netip.Addr, of []Address) (Address, error) {
	kinds := []string{TLS}
	if same {
		kinds = []string{Unix, TLS, TCP}
	}
	want, err := forcedKind(os.Getenv)
	if err != nil {
		return Address{}, err
	}
	if want != "" {
		kinds = []string{want}
	}
	var second Address
	for _, kind := range kinds {
		for _, a := range of {
			if a.Kind != kind || !same && a.Host.Addr().IsLoopback() {
				continue
			}
			if same || kind == Unix || leadsAway(a.Host.Addr(), own) {
				return a, nil
			}
			if second.Kind == "" {
				second = a
			}
		}
	}
	if second.Kind != "" { // there may be a way that the interfaces do not show
		return second, nil
	}
	wanted := strings.Join(kinds, " or ")
	if !same {
		wanted += " at an address that other hosts reach"
	}
	return Address{}, fmt.Errorf("no way to a peer at %v; wanted: %s", of, wanted)
}

// leadsAway reports whether an address leads from a host with the addresses own to another: it is of a family that the host has, and none
// of its own. Bridges for containers have the same address on many hosts.
func leadsAway(a netip.Addr, own []netip.Addr) bool {
	return !slices.Contains(own, a) && slices.ContainsFunc(own, func(o netip.Addr) bool { return o.Is4() == a.Is4() })
}

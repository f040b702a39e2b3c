package launch

import (
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/coppice-go/coppice/internal/control"
)

// Host is a machine of the job, and how many processes it takes.
type Host struct {
	Name  string
	Slots int
}

// ParseHosts reads a:4,b:4,[fd00::2]:4 (a host without a number takes one process), or with
// @file a file with one host a line, where # begins a comment.
func ParseHosts(text string) ([]Host, error) {
	entries := strings.Split(text, ",")
	if name, ok := strings.CutPrefix(text, "@"); ok {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("hosts file %s: %w; allowed: a readable file with one HOST:SLOTS a line", name, withoutPath(err))
		}
		entries = nil
		for line := range strings.Lines(string(content)) {
			line, _, _ = strings.Cut(line, "#")
			if line = strings.TrimSpace(line); line != "" {
				entries = append(entries, line)
			}
		}
		if len(entries) == 0 {
			return nil, fmt.Errorf("hosts file %s names no host; allowed: one HOST:SLOTS a line", name)
		}
	}
	var hosts []Host
	for _, entry := range entries {
		host, err := parseHost(entry)
		if err != nil {
			return nil, err
		}
		for _, other := range hosts {
			if other.Name == host.Name {
				return nil, fmt.Errorf("host %s twice; allowed: once, with all its processes", host.Name)
			}
		}
		hosts = append(hosts, host)
	}
	return hosts, nil
}

func parseHost(entry string) (Host, error) {
	malformed := fmt.Errorf("host %q; allowed: HOST or HOST:SLOTS with 1 slot or more, such as node1:4 or [fd00::2]:4", entry)
	name, slots, numbered := strings.Cut(entry, ":")
	if user, rest, ok := strings.Cut(entry, "["); ok { // an IPv6 address, which ssh takes without brackets
		address, after, closed := strings.Cut(rest, "]")
		ip, err := netip.ParseAddr(address)
		if !closed || err != nil || !ip.Is6() || user != "" && !strings.HasSuffix(user, "@") || after != "" && after[0] != ':' {
			return Host{}, malformed
		}
		name, slots, numbered = user+address, strings.TrimPrefix(after, ":"), after != ""
	}
	host := Host{Name: name, Slots: 1}
	if numbered {
		var ok bool
		if host.Slots, ok = control.ParseCount(slots, 1); !ok || host.Slots > control.SizeMax {
			return Host{}, malformed
		}
	}
	// A name that begins with - would be an option of ssh.
	if name == "" || name[0] == '-' || strings.ContainsAny(name, " \t\"'\\$`;&|<>()/") {
		return Host{}, malformed
	}
	return host, nil
}

// slots returns how many processes the hosts take together.
func slots(hosts []Host) (sum int) {
	for _, h := range hosts {
		sum += h.Slots
	}
	return sum
}

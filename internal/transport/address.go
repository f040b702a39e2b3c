package transport

import (
	"cmp"
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
)

// The kinds of addresses.
const (
	Unix = "unix" // a Unix socket: the same host
	TCP  = "tcp"  // in clear: the same host, or a network of one's own
	TLS  = "tls"  // TCP with TLS 1.3
)

// Address is where a process can be reached. Its text is
//
//	unix:/path
//	tcp:192.0.2.1:7000
//	tls:[2001:db8::1]:7000
type Address struct {
	Kind string
	Path string         // of Unix
	Host netip.AddrPort // of TCP and TLS
}

func (a Address) String() string {
	switch a.Kind {
	case "":
		return ""
	case Unix:
		return Unix + ":" + a.Path
	default:
		return a.Kind + ":" + a.Host.String()
	}
}

// ParseAddress reads the text of an address.
func ParseAddress(s string) (Address, error) {
	kind, rest, _ := strings.Cut(s, ":")
	switch kind {
	case Unix:
		if err := checkPath(rest); err != nil {
			return Address{}, fmt.Errorf("address %q: %w", s, err)
		}
		return Address{Kind: Unix, Path: rest}, nil
	case TCP, TLS:
		host, err := netip.ParseAddrPort(rest)
		if err != nil || host.Port() == 0 || host.Addr().Zone() != "" {
			return Address{}, fmt.Errorf("address %q; allowed: %s:IP:PORT, an IPv6 address in brackets", s, kind)
		}
		return Address{Kind: kind, Host: netip.AddrPortFrom(host.Addr().Unmap(), host.Port())}, nil
	}
	return Address{}, fmt.Errorf("address %q; allowed: unix:/PATH, tcp:IP:PORT, tls:IP:PORT", s)
}

func checkPath(path string) error {
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return fmt.Errorf("path %q; allowed: an absolute one", path)
	}
	return nil
}

// Place is where to listen. Its text is
//
//	unix:/path
//	tls:                     any port, all interfaces
//	tls:7000                 this port
//	tls:7000-7099            the first free one of these
//	tls:10.0.0.0/8:7000      on the first interface with an address in the network
//	tls:10.0.0.0/8           the same, any port
//	tcp:[2001:db8::/32]:0    the same for IPv6; port 0: any
type Place struct {
	Kind      string
	Path      string       // of Unix
	Net       netip.Prefix // of TCP and TLS; the zero value: all interfaces
	Low, High uint16       // ports, both included; 0: any
}

func (p Place) String() string {
	switch {
	case p.Kind == Unix:
		return Unix + ":" + p.Path
	case !p.Net.IsValid():
		return p.Kind + ":" + p.ports()
	case p.Net.Addr().Is6():
		return p.Kind + ":[" + p.Net.String() + "]:" + p.ports()
	default:
		return p.Kind + ":" + p.Net.String() + ":" + p.ports()
	}
}

func (p Place) ports() string {
	if p.High > p.Low {
		return fmt.Sprintf("%d-%d", p.Low, p.High)
	}
	return strconv.Itoa(int(p.Low))
}

// ParsePlace reads the text of a place.
func ParsePlace(s string) (Place, error) {
	kind, rest, ok := strings.Cut(s, ":")
	switch {
	case ok && kind == Unix:
		if err := checkPath(rest); err != nil {
			return Place{}, fmt.Errorf("place %q: %w", s, err)
		}
		return Place{Kind: Unix, Path: rest}, nil
	case ok && (kind == TCP || kind == TLS):
		p := Place{Kind: kind}
		network, ports := "", rest
		if i := strings.LastIndexByte(rest, ':'); strings.HasSuffix(rest, "]") || i < 0 && strings.Contains(rest, "/") {
			network, ports = rest, ""
		} else if i >= 0 {
			network, ports = rest[:i], rest[i+1:]
		}
		if err := cmp.Or(p.parseNet(network), p.parsePorts(ports)); err != nil {
			return Place{}, fmt.Errorf("place %q: %w", s, err)
		}
		return p, nil
	}
	return Place{}, fmt.Errorf("place %q; allowed: unix:/PATH, tcp:[NETWORK:]PORTS, tls:[NETWORK:]PORTS", s)
}

func (p *Place) parseNet(s string) (err error) {
	if s == "" {
		return nil
	}
	bare := s
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		bare = s[1 : len(s)-1]
	}
	p.Net, err = ParseNetwork(bare)
	if err != nil || p.Net.Addr().Is6() != (bare != s) {
		return fmt.Errorf("network %q; allowed: such as 10.0.0.0/8 or [2001:db8::/32]", s)
	}
	return nil
}

// ParseNetwork reads a network in CIDR notation.
func ParseNetwork(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, fmt.Errorf("network %q; allowed: such as 10.0.0.0/8 or 2001:db8::/32", s)
	}
	return p.Masked(), nil
}

func (p *Place) parsePorts(s string) error {
	if s == "" {
		return nil
	}
	low, high, ranged := strings.Cut(s, "-")
	l, err := strconv.ParseUint(low, 10, 16)
	h := l
	if err == nil && ranged {
		h, err = strconv.ParseUint(high, 10, 16)
	}
	if err != nil || h < l || ranged && l == 0 {
		return fmt.Errorf("ports %q; allowed: 0 (any), 1 to 65535, or LOW-HIGH", s)
	}
	p.Low, p.High = uint16(l), uint16(h)
	return nil
}

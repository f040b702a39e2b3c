package transport

import (
	"net/netip"
	"strings"
	"testing"
)

// parsed are addresses by their texts.
func parsed(t *testing.T, texts string) (all []Address) {
	t.Helper()
	for text := range strings.FieldsSeq(texts) {
		a, err := ParseAddress(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	return all
}

// TestTheAddressLeadsToThePeer: not to this host itself, and not by a family that it does not have.
func TestTheAddressLeadsToThePeer(t *testing.T) {
	t.Setenv(ChooseVariable, "")
	for _, c := range []struct{ name, own, of, want string }{
		{"both families", "10.0.0.1 fd00::1", "tls:10.0.0.2:1 tls:[fd00::2]:1", "tls:10.0.0.2:1"},
		{"IPv6 alone here", "fd00::1", "tls:10.0.0.2:1 tls:[fd00::2]:1", "tls:[fd00::2]:1"},
		{"IPv6 alone there", "10.0.0.1 fd00::1", "tls:[fd00::2]:1", "tls:[fd00::2]:1"},
		{"a bridge of containers", "172.17.0.1 10.0.0.1", "tls:172.17.0.1:1 tls:10.0.0.2:1", "tls:10.0.0.2:1"},
		{"another bridge", "172.17.0.1 10.0.0.1", "tls:172.18.0.1:1 tls:10.0.0.2:1", "tls:172.18.0.1:1"}, // nobody here can know
		{"nothing that fits", "fd00::1", "tls:10.0.0.2:1", "tls:10.0.0.2:1"},
		{"no interface", "", "tls:127.0.0.1:1 tls:10.0.0.2:1", "tls:10.0.0.2:1"},
	} {
		var own []netip.Addr
		for text := range strings.FieldsSeq(c.own) {
			own = append(own, netip.MustParseAddr(text))
		}
		if got, err := choose(false, own, parsed(t, c.of)); err != nil || got.String() != c.want {
			t.Errorf("%s: %v, %v; want %s", c.name, got, err, c.want)
		}
	}
}

func TestPlacesOfTheEnvironment(t *testing.T) {
	for _, c := range []struct {
		listen, transport string
		others            bool
		want              string // "": nowhere
	}{
		{"", "", false, ""},
		{"", "", true, "tls:0"},
		{"", "tcp", false, "tcp:0"},
		{"", "unix", true, "tls:0"},
		{"tls:[fd00::/8]", "", false, "tls:[fd00::/8]:0"},
		{"tls:7000-7009", "tls", true, "tls:7000-7009"},
		{"7000", "", true, "COPPICE_LISTEN: place"},
		{"", "udp", true, "COPPICE_TRANSPORT="},
	} {
		p, listens, err := ListenPlace(func(name string) string {
			return map[string]string{ListenVariable: c.listen, ChooseVariable: c.transport}[name]
		}, c.others)
		got := ""
		if err != nil {
			got = err.Error()
		} else if listens {
			got = p.String()
		}
		if !strings.HasPrefix(got, c.want) || got != "" && c.want == "" {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestTheLauncherListensWhereItsProcessesDo: as far as this host is there.
func TestTheLauncherListensWhereItsProcessesDo(t *testing.T) {
	for text, want := range map[string]string{
		"tls:":                    ":0",
		"tls:7000":                ":0",
		"tcp:7000-7009":           ":7000-7009",
		"tls:127.0.0.0/8:1-2":     "127.0.0.1:1-2",
		"tls:240.0.0.0/24:1-2":    ":1-2",
		"tls:[2001:db8::/32]:0":   ":0",
		"unix:/run/process":       ":0",
		"tcp:127.0.0.0/8":         "127.0.0.1:0",
		"tls:[2001:db8::/32]:1-1": ":0",
	} {
		p, err := ParsePlace(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.ForLauncher().HostPorts(); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
}

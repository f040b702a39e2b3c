package control

import (
	"net"
	"testing"
)

// TestTheOwnSeedIsFoundByAnyText: however its address is written.
func TestTheOwnSeedIsFoundByAnyText(t *testing.T) {
	addresses, _ := net.InterfaceAddrs()
	six := false
	for _, a := range addresses {
		n, ok := a.(*net.IPNet)
		six = six || ok && n.IP.Equal(net.IPv6loopback)
	}
	for _, c := range []struct {
		seeds []string
		want  int
		six   bool
	}{
		{[]string{"[2001:db8::1]:7", "[::1]:7"}, 1, true},
		{[]string{"[2001:db8::1]:7", "[0:0::1]:7"}, 1, true},
		{[]string{"[2001:db8::1]:7", "[0:0::2]:7"}, -1, true},
		{[]string{"192.0.2.1:7", "[::ffff:127.0.0.1]:7"}, 1, false},
		{[]string{"192.0.2.1:7", "127.0.0.1:7"}, 1, false},
	} {
		if c.six && !six {
			t.Logf("%v: no IPv6 on this host", c.seeds)
			continue
		}
		if got := ownSeed(t.Context(), c.seeds, ""); got != c.want {
			t.Errorf("%v: %d, want %d", c.seeds, got, c.want)
		}
	}
}

//go:build linux

package hosts

import (
	"net"
	"testing"
	"time"
)

// datagrams opens a socket on each of two hosts. The function that it returns reports whether a
// datagram from one host reaches the other; it waits longer if the datagram should.
func datagrams(t *testing.T, n *hostNetwork) (reached func(from int, should bool) bool) {
	t.Helper()
	var sockets [2]*net.UDPConn
	for i := range sockets {
		var err error
		n.Hosts[i].Do(func() {
			sockets[i], err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(addressOf(i)), Port: 7071})
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { sockets[i].Close() })
	}
	number := byte(0)
	return func(from int, should bool) bool {
		patience := 10 * time.Second
		if !should {
			patience = 300 * time.Millisecond
		}
		number++
		to := sockets[1-from]
		if _, err := sockets[from].WriteTo([]byte{number}, to.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		for limit := time.Now().Add(patience); ; {
			if err := to.SetReadDeadline(limit); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 1)
			if _, _, err := to.ReadFrom(b); err != nil {
				return false
			}
			if b[0] == number {
				return true
			}
		}
	}
}

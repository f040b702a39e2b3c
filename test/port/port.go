// Package port finds addresses for tests.
package port

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
)

// lastPort is the last port that Free tried. The system never assigns ports below 32768 by itself.
var lastPort atomic.Int32

func init() { lastPort.Store(int32(20000 + rand.IntN(10000))) }

// Free returns an address at which no process listens; it returns different ones to all tests of this
// process.
func Free(t testing.TB) string {
	t.Helper()
	for range 100 {
		if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", lastPort.Add(1))); err == nil {
			l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

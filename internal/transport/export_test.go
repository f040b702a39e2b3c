package transport

import "testing"

// Pidfd is that of the peer's process; −1: there is none.
func (c *Conn) Pidfd() int { return c.pidfd }

// Secure reports whether the connection is encrypted.
func (c *Conn) Secure() bool { return c.secure != nil }

// RefusePulls has connections made until the test ends do without reading the peer's memory.
func RefusePulls(t testing.TB) {
	refusePulls = true
	t.Cleanup(func() { refusePulls = false })
}

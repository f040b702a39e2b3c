package transport

// Pidfd is that of the peer's process; −1: there is none.
func (c *Conn) Pidfd() int { return c.pidfd }

// Secure reports whether the connection is encrypted.
func (c *Conn) Secure() bool { return c.secure != nil }

package control

import (
	"context"
	"net"

	"github.com/coppice-go/coppice/internal/wire"
)

// Break breaks a client's connection, as a network might.
func (c *Client) Break() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn.Close()
}

// Shake makes the handshake of a process that then says only what the test
// writes.
func Shake(ctx context.Context, address string, p Place) (net.Conn, error) {
	id := wire.Identity{Job: p.Job, From: uint32(p.Rank), To: coordinatorID, Incarnation: p.Incarnation}
	conn, _, err := shake(ctx, address, p.Key, id)
	return conn, err
}

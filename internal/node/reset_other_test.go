//go:build !linux

package node

// reset ends a connection.
func reset(_ *Process, q *peer) { q.broken(errCut) }

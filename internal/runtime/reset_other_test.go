//go:build !linux

package runtime

// reset ends a connection.
func reset(_ *Process, q *peer) { q.broken(errCut) }

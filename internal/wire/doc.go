// Package wire is what goes over a connection between two processes of a job:
// the handshake, in which each proves that it knows the job's key before a
// frame is read, and then frames, a header and a payload each.
//
// It knows nothing of connections that break and come again: package transport
// does, with the numbers and acknowledgements of the headers.
package wire

// Package wire defines what goes over a connection between two processes of a job: the handshake, in
// which each proves that it knows the job's key before the other reads a frame, and then frames, a
// header and a payload each.
//
// It knows nothing of connections that break and come again: package transport handles them, with the
// numbers and acknowledgements of the headers.
package wire

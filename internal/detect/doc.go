// Package detect tells whether processes are dead. What the kernel says of a
// process is certain; everything else is a suspicion.
//
// A pidfd names one process for good: unlike its number, it is never given to
// another one. Take it first and then challenge the peer: whoever answers the
// challenge was alive when the pidfd was taken, so the pidfd is its own.
//
// Silence is for what no kernel tells: a process that is stopped, a host that is
// lost. Processes beat to each other around a ring, and who is not heard of for
// too long is suspected.
package detect

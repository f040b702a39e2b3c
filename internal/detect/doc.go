// Package detect finds out whether processes are dead. What the kernel says of a
// process is certain; everything else is evidence, which package suspicion weighs.
//
// A pidfd names one process for good: unlike its number, it is never given to
// another one. Take it first and then challenge the peer: whoever answers the
// challenge was alive when the pidfd was taken, so the pidfd is its own.
//
// Processes of one host beat in shared memory (Page), those of different hosts by
// Datagrams. Of one that does not beat, the kernel says whether it is at work (Inspect).
package detect

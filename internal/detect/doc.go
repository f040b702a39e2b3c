// Package detect finds out whether processes have crashed. What the kernel reports about a process is
// certain; everything else is evidence, which package suspicion weighs.
//
// A pidfd names one process for good: the kernel never reuses it for another process, as it does
// process numbers. Take the pidfd first and then challenge the peer: the process that answers the
// challenge was alive when the pidfd was taken, so the pidfd is its own.
//
// Processes of one host beat in shared memory (Page), those of different hosts by Datagrams. If a
// process stops beating, the kernel reports whether it is at work (Inspect).
package detect

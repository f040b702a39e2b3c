// Package logp simulates protocols in the LogP model: the same machines that
// run on real sockets, at up to millions of processes, in integer time. Its API may change.
//
// An Engine simulates one run after the other of one protocol; MonteCarlo
// spreads many runs with random faults over all cores and summarizes them. The
// same seed gives the same results, whatever the number of cores.
package logp

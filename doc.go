// Package coppice is group communication for Go programs that regrows when
// processes die. A coppiced tree is cut to the ground and grows back: broadcast,
// scatter, gather, reduce, all-to-all and agreement are to finish correctly among
// the survivors, without a restart and without a checkpoint.
//
// What a user will import is this package: a program written as a function of one
// task, run again by a survivor when its process dies. It arrives next and is not
// here yet; docs/api.md shows its shape. What exists today is what it will stand
// on:
//
//   - topology: who talks to whom; trees, rings and graphs as arithmetic.
//   - protocol: what a protocol is, a pure state machine without clock, network
//     or goroutine; protocol/broadcast holds the corrected broadcasts.
//   - logp: a simulator that runs these machines in LogP time, up to millions of
//     processes.
//   - chaos: adversarial schedules and crashes for the same machines, with
//     invariants, replayed from a seed.
//   - model: the closed forms that the simulator's results are held against.
//   - cmd/coppice: the command that puts them to use.
//
// A protocol is written once and driven in three ways: simulated time, hostile
// schedules and, with the process API, real sockets. What is simulated is what
// runs. The design is told in docs/design.md.
package coppice

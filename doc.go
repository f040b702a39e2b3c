// Package coppice is group communication for Go programs that regrows when
// processes die: a coppiced tree is cut to the ground and grows back.
//
// A program is a function of one task:
//
//	func main() { coppice.Main(program) }
//
//	func program(ctx context.Context, t *coppice.Task) error {
//		word, err := coppice.Broadcast(ctx, t, "leaf") // what task 0 passes
//		if err != nil {
//			return err
//		}
//		fmt.Printf("task %d of %d has %s\n", t.Rank(), t.Size(), word)
//		return coppice.Barrier(ctx, t)
//	}
//
// and this runs it as eight processes:
//
//	coppice run -n 8 -- ./program
//
// # Jobs, processes and tasks
//
// A job is a number of processes that were started together: by coppice run, by
// mpirun or by srun. A process started by itself is a job of one, and Local makes
// a job of goroutines, for tests. Each process runs one task, or several
// (Job.Tasks). A task has a rank, which stays, and a sequence of operations;
// Task.Split makes smaller groups, Task.Fork and Go further sequences for other
// goroutines.
//
// Send and Recv are between two tasks. Broadcast, Barrier and Split are between
// all tasks of a group, which call the same ones in the same order. A process
// serves the others until every task of the job has returned.
//
// # When a process dies
//
// An operation that needs the dead ends with a FailedError that names them, and
// never hangs; one that does not need them goes on. A corrected broadcast
// (Corrected) reaches everybody who lives. Tasks that call different operations
// get ErrMismatch.
//
// What is to come: a survivor runs the function of a dead task again, from the
// top, and operations that were finished answer from a log. User programs will
// have no recovery code. Until then a dead task stays dead.
//
// # The user's duties
//
// Now:
//
//  1. All tasks of a group call the same operations in the same order, with the
//     same roots, types and protections.
//  2. A Task is for one goroutine at a time. All tasks fork, and call Go, in the
//     same order.
//  3. Shared memory stays unchanged until the operation is over at every task.
//
// Once functions are run again, as docs/api.md numbers them; who keeps to them
// now has nothing to change then:
//
//  1. The same operations with the same inputs on every attempt: no clock, map
//     order or global randomness in what they depend on (Task.Rand).
//  2. State in local variables, no lock held across an operation.
//  3. Outside effects happen at least once: make them idempotent, name files by
//     attempt (Task.Attempt) and rename.
//  4. Shared memory stays unchanged until Save, which is to come.
//  5. All tasks Save at the same points.
//
// # More
//
// docs/tutorial.md begins with nothing and ends with eight processes;
// docs/running.md is about starting them, variables, transports and security;
// docs/api.md lists what exists and what does not yet; docs/design.md tells how
// it works. The protocols are pure state machines (package protocol), which a
// simulator (logp), an adversary (chaos) and the processes of this package run
// unchanged.
package coppice

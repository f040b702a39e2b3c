// Package coppice is an MPI-style library that survives crashes: when a process
// dies, another takes over and every collective still returns the same result.
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
// mpirun or by srun. A process started by itself is a job of one, and [Local] makes
// a job of goroutines, for tests. Each process runs one task, or several
// ([Job]). A [Task] has a rank, which stays, and a sequence of operations;
// [Task.Split] makes smaller groups, [Task.Fork] and [Go] further sequences for other
// goroutines.
//
// [Send] and [Recv] are between two tasks. All others are between all tasks of a
// group, which call the same ones in the same order. A process serves the others
// until every task of the job has returned.
//
//	Barrier                 nobody goes on before everybody is there
//	Broadcast               the root's value, to all
//	Scatter                 the root's values, one to each
//	Gather, AllGather       a value of each, at the root or at all
//	AllToAll                a value of each for each
//	Reduce, AllReduce       the values of all combined, at the root or at all
//	Scan, ExScan            those of the tasks up to each, or before each
//	ReduceScatter           a value of each for each, combined
//	Agree                   the values of all combined, the same for all or for none
//
// Numbers, and slices of numbers, are combined with an [Op] such as [Sum]; [ReduceFunc],
// AllReduceFunc, ScanFunc, ExScanFunc and ReduceScatterFunc combine anything with a
// function. Where only the root has a result, the others get nil or zero. How data travels is chosen by its size
// and the number of tasks, and makes no difference to the result: not even to the
// last bits of a sum of floats.
//
// # When a process dies
//
// A survivor runs the function of each of its tasks again, from the top. Operations
// that were finished answer from a log, the first unfinished one joins the others,
// who wait for it. Every task returns what it would have returned without the death:
// programs have no recovery code. It takes one survivor, and memory for what was sent
// (Job.LogBytes); docs/replay.md tells how it works.
//
// A program that runs for long calls [Save] in its rounds: a task that is run again goes on
// from what it saved last, what was kept until then is dropped, and processes that have joined
// the job are given tasks. [Once] is for what comes from outside, such as files.
//
// With mode [Agreed] all tasks complete an operation or none: what a task decides by it,
// all decide. [Agree] is the smallest such operation.
//
// With Recovery: [Report] nothing is run again, and programs repair themselves, with
// [Task.Revoke], [Task.Shrink] and Agree, as those for ULFM do (docs/ulfm.md). An operation that needs the dead ends
// with a [FailedError] that names them, and never hangs. Messages, and broadcasts along
// a tree, go on where they do not need them; the other operations need everybody as
// long as they wait. A broadcast of mode [Corrected] reaches everybody who lives.
// Tasks that call different operations get [ErrMismatch].
//
// # The user's duties
//
// Always:
//
//  1. All tasks of a group call the same operations in the same order, with the
//     same roots, types, modes and trees; reductions with the same Op or function,
//     and slices of numbers of the same length.
//  2. A Task is for one goroutine at a time, otherwise operations fail. All tasks
//     fork, and call Go, in the same order.
//  3. [Shared] memory stays unchanged until the operation is over at every task; with
//     Recovery: Replay, longer: see below.
//
// And since functions are run again, as docs/api.md numbers them:
//
//  1. The same operations with the same inputs on every attempt: no clock, map
//     order or global randomness in what they depend on ([Task.Rand], Once).
//  2. State in local variables, no lock held across an operation. In a program that
//     saves, all that changes after the first Save is in what it saves.
//  3. Outside effects happen at least once: make them idempotent, name files by
//     attempt ([Task.Attempt]) and rename.
//  4. Shared memory stays unchanged until the next Save; what was lent before the first
//     one, as long as the job runs.
//  5. All tasks Save at the same points, with values of one type, when all that was sent
//     is received.
//
// # More
//
// docs/tutorial.md goes from an empty folder to a program that survives a crash;
// docs/running.md is about starting programs, variables, transports and security;
// docs/api.md has the meaning of every call and what each mode promises;
// docs/design.md describes how it works. The protocols are pure state machines (package protocol), which a
// simulator (logp), an adversary (chaos) and the processes of this package run
// unchanged.
package coppice

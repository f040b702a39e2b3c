// Package launch starts the processes of a job and looks after them: what mpirun
// is to MPI.
//
// A Plan is a checked Config; its Run starts N processes, each with the variables
// that tell it its place (package control), hosts the coordinator that they meet
// at, and waits for them. What they write is shown line by line, each with its
// rank. Any program can be started; one that never joins the job is just run.
//
// What the launcher promises:
//
//  1. Nothing that a process wrote is lost, however soon it ended and whatever
//     ended it, and nobody who inherited its output keeps the launcher waiting.
//  2. No process outlives the job. Each is in a process group of its own, which
//     is killed when the process has ended. If the launcher itself is killed,
//     the kernel kills what it started; what those started (sh, go run) notices
//     that the coordinator is gone, if it has joined the job.
//  3. Death and failure are kept apart: a process that a signal ended has died,
//     which the others may survive; one that ended with an exit code other than
//     0 has failed, and with it the run. The report names the first.
//  4. A job grows only if it was allowed to, and only on request; who died is
//     started again only if that was asked for, and not for ever. The new
//     processes are looked after like the first ones.
//  5. A signal to the launcher is passed on; the second one kills, and so does
//     time (Grace). The time-out is kept whatever hangs: a few processes are asked
//     for goroutines, unless it is Abrupt, the others killed, and Run returns.
//  6. Processes of other hosts may outlive the launcher (Detach). Then the agent on each host keeps what they
//     write and how they end (Keep), until somebody asks (Attachment). They die with their agent.
package launch

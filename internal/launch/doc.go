// Package launch starts the processes of a job and looks after them, as mpirun
// does for MPI.
//
// A Plan is a checked Config. Its Run starts N processes, each with the variables
// that give it its place (package control), hosts their coordinator,
// and waits for them. It shows their output line by line, each line with its
// rank. It can start any program; a program that never joins the job just runs.
//
// What the launcher promises:
//
//  1. No output of a process is lost, however soon it ended and whatever
//     ended it. A process that inherited the output does not keep the launcher waiting.
//  2. No process outlives the job. Each is in its own process group, which
//     is killed when the process has ended. If the launcher itself is killed,
//     the kernel kills what it started; a process behind a wrapper (sh, go run) notices
//     that the coordinator is gone, if it has joined the job.
//  3. Death and failure are different: a process that a signal ended has died,
//     which the others may survive; a process that ended with an exit code other than
//     0 has failed, and so has the run. The report names the first.
//  4. A job grows only if it was allowed to, and only on request. A dead process is
//     started again only if the user asked for that, and not for ever. The launcher
//     looks after the new processes as after the first ones.
//  5. A signal to the launcher is forwarded; the second signal kills the processes, and so does
//     the end of Grace. The timeout holds whatever hangs: a few processes print their
//     goroutines, unless the job is Abrupt, the others are killed, and Run returns.
//  6. Processes of other hosts may outlive the launcher (Detach). Then the agent on each host keeps their
//     output and how they end (Keep), until somebody asks (Attachment). They die with their agent.
package launch

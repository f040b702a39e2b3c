// Package control is a job's coordinator and its clients: which processes are present and where
// they listen, which have died, which have returned, and whether all have.
//
// The coordinator (Serve) runs in the launcher or, if a scheduler or a user started the processes, in one of
// them: the process of rank 0 (Host), or a process on the host of a seed (seeds.go). The latter also holds where agents outlive the launcher. Every process,
// including the coordinator's, finds its place (FromEnvironment) and joins (Join). If no seeds are given, processes find each other through a
// service outside of the job (rendezvous.go).
//
// # The connection
//
// The connection is a Unix socket in the job's directory, or TCP with TLS from other hosts. It begins with the
// handshake of package wire with the job's key; then messages follow, one JSON object a
// line, of bounded length (message.go lists them). If a connection breaks, the client
// connects again: the coordinator then repeats everything, and the
// client passes on only what is new. A coordinator that creates the key itself uses it for one run only,
// so no process meets the coordinator of another run.
//
// # Death
//
// The coordinator takes the pidfd of a connecting process before the challenge: when the pidfd
// becomes readable, that incarnation is dead, for certain. Before it sends the death notice, the coordinator
// reads what the process still sent, which takes no time unless the machine is busy (at most
// 0.5 s). If the process is not its child, it waits up to 2 ms for the launcher to say how the process ended.
// It notifies the live process of the lowest rank at once, since that process proposes the next
// view, and the others with the next batch, some milliseconds later. Everything else is suspicion, which needs evidence (package suspicion):
//
//   - A process whose connection is broken may come back.
//   - On its own host the coordinator sees processes beat in a page of shared memory, and
//     asks the kernel about a process that does not. suspicion.Guard decides which processes are fenced:
//     killed through the pidfd, after which the death is certain. It spares a process
//     that works, the last process, all processes at once, and a process that took over from one that was fenced for silence.
//   - Silence between a process and the coordinator kills no process on another host. The coordinator tells any process that asks
//     whether it hears another one (Hears); the processes suspect, and a majority of the view evicts.
//   - A process that a peer of this host reports three times in a row, although it is alive, is
//     unreachable for that peer. The coordinator tells only that peer.
//   - A process may ask the coordinator to kill another one (Fence). If it proves that a majority has promised to continue without that one,
//     the coordinator does so, on another host through the agent there. If it proves that only two processes are left, the coordinator kills a process on any host
//     that is silent for Silence; and if it hears both, it kills the process of the higher rank. Otherwise the request is a wish, which the coordinator grants for a
//     process of this host that shows no life.
//   - The coordinator and the agent both check the proof (membership.Letter.Condemns), and refuse what it does not prove: the process that asked learns why.
//   - A process that a view has removed is killed Silence later. A process that was killed, and is
//     not gone Silence later, is taken for dead; that death is not certain.
//   - The coordinator gives up on a process that has not joined within JoinTimeout of the first, or before a view
//     continues without it: it reports a death that is not certain, and
//     the launcher, which knows what it has started, ends the process.
//   - The coordinator's own process cannot be fenced.
//
// A process writes what must outlive it to its record, a file of the
// job's directory on its host (Client.Record). The reporter of a certain death has read the record
// first: the coordinator on its own host, the agent on another. If the record cannot be
// read, the death is not certain.
//
// A process that leaves before the job has finished counts as dead. A reported death is final: the coordinator turns that
// incarnation away from then on.
//
// When the launcher dies, the job ends: every client tells its handler that the coordinator is
// lost, on the launcher's host at once, on other hosts when the client has not found it again for five times Silence, at
// least 20 s. If the coordinator is part of a process of the job, another process replaces
// it, on its host as long as one is left there (succession.go). The last process to leave the directory removes it. If somebody else removes it, the coordinator creates it again (keep.go).
//
// # The end
//
// A process reports in which view all its tasks have returned (Returned), and again
// for every view that opens after that. If a view gives it the tasks of a dead process,
// it reports that it works again (Resumed). Package ending decides when the job has
// finished: when every process that owns tasks in the latest view has returned since it got them. A coordinator
// that is part of a process first tells the others that the job is over, then that all live processes that have joined know it. It lets them leave
// when they have confirmed that they know that, too, or Silence later.
//
// # Growth
//
// A job may be allowed to grow (Grow). Processes that join while it runs have ranks
// from Size on, or the rank of a dead process and its next incarnation (Reserve); an observer
// asks the launcher for them (RequestJoin). The job's end waits for them only if they own a task in the latest
// reported view.
//
// The launcher may start the next incarnation of a dead process by itself (Revive), in
// any job. To know whether that is needed, it asks what the processes have reported about
// their memory (Load, Room).
//
// # The event stream
//
// An observer (Watch) connects like a process, under an id of its own, and
// receives events, one JSON object a line, with "time", "type", "rank" if the event is about
// one, and these attributes:
//
//	job          job, size, grow, pid, command    the coordinator has begun; command: what the processes run
//	started      incarnation, pid          the launcher has started a process, or its wrapper
//	joined       incarnation, pid, again   it has connected; again: not for the first time
//	announced    incarnation, addresses, host, host_name
//	broken       incarnation               its connection is; it may come back
//	suspected    incarnation, by, why, silent_seconds    by: a rank, or "coordinator"
//	unreachable  incarnation, from         suspected by a rank of this host, again and again, though it lives
//	fenced       incarnation, why          killed, or its agent is told to
//	spared       incarnation, by, why      it is not killed: nothing proves that it may be
//	died         incarnation, certain, how
//	returned     incarnation, view, failure    its tasks have; failure "": well
//	resumed      incarnation, view         it had returned, and has adopted tasks
//	left         incarnation, certain, how it has ended after the job had finished
//	finished                               every live process has returned, and nothing of the dead is left to do
//	stop         reason                    a graceful end is asked for
//	status       members, former, view,    for a new observer, after the past: Status of each rank,
//	             size, pid, command, began those of earlier incarnations, the latest view, what the
//	                                       event job told, and its time
//	end                                    the last
//
// Processes add events of other types (Emit), always under their own rank. The coordinator knows two of
// them: view, with number, members ([id, incarnation] each), owners (the id of
// each task's owner, −1: none) and opened, of which it keeps the first for each
// view; and epoch, with number, when all tasks have saved one. It keeps the last 10,000 events
// for newcomers. An observer that does not read is dropped; nothing waits for it.
package control

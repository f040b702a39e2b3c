// Package control is a job's coordinator and its clients: who is there and where
// it listens, who has died, who has returned, and whether all have.
//
// The coordinator (Serve) lives in the launcher or, where a scheduler or a user started the processes, in one of
// them: that of rank 0 (Host), or one on the host of a seed (seeds.go), as also where agents outlive the launcher. Every process, that one
// included, finds its place (FromEnvironment) and joins (Join).
//
// # The connection
//
// A Unix socket in the job's directory, or TCP with TLS from other hosts; the
// handshake of package wire with the job's key; then messages, one JSON object a
// line, of bounded length (message.go lists them). Broken connections are made
// again by the client: the coordinator tells everything once more, and the
// client hands on only what is news. A key belongs to one run of a coordinator,
// where it makes the key itself, so nobody meets the coordinator of another run.
//
// # Death
//
// The coordinator takes the pidfd of who connects before the challenge: when it
// becomes readable, that incarnation is dead, for certain. Before the notice the coordinator
// reads what the process still said, which takes no time unless the machine is busy (at most
// 0.5 s), and waits up to 2 ms for the launcher to say how it ended if it is no child of ours.
// It notifies the live process of the lowest rank at once, since that one proposes the next
// view, and the others with the next batch, some milliseconds later. All else is suspicion, which needs evidence (package suspicion):
//
//   - A process whose connection is broken may come back.
//   - On its own host the coordinator sees processes beat in a page of shared memory, and
//     asks the kernel about one that does not. suspicion.Guard decides which are fenced:
//     killed through the pidfd, after which the death is certain. It spares a process
//     that works, the last one, all at once, and a process that took over from one that was fenced for silence.
//   - Between hosts the coordinator's silence kills nobody. It answers who asks
//     whether it hears a process (Hears); the processes suspect, and a majority of the view evicts.
//   - A process that a peer of this host reports three times in a row, though it lives, is
//     unreachable for that peer, and told so to that peer alone.
//   - A process may ask for the death of another one (Fence). With promises of a majority
//     that is done, on another host by the agent there. Without it is a wish, granted for a
//     process of this host that shows no life; with two left, for one that is silent for Silence anywhere, and if both are
//     heard, the one of the higher rank is killed.
//   - A process that a view has removed is killed Silence later. One that was killed, and is
//     not gone Silence later, is taken for dead; that is not certain.
//   - A process that has not joined within JoinTimeout of the first, or before a view
//     goes on without it, is given up: the death that is told is not certain, and
//     the launcher, which knows what it has started, ends it.
//   - The coordinator's own process cannot be fenced.
//
// What a process must not forget, even dead, it writes to its record, a file of the
// job's directory on its host (Client.Record). Who reports a certain death has read it
// first: the coordinator on its own host, the agent on another. If it cannot be
// read, the death is not certain.
//
// Leaving is dying, before the job has finished. A death that was told is final: the
// incarnation is turned away from then on.
//
// When the launcher dies, the job ends: every client's handler is told that the coordinator is
// lost, on its host at once, on another when it was not found again for five times Silence, at
// least 20 s. A coordinator that is part of a process of the job is replaced by another
// process, of its host as long as one is left there (succession.go). The last process to leave the directory removes it; one that somebody removes is made again (keep.go).
//
// # The end
//
// A process tells in which view all its tasks have returned (Returned), and again
// for every view that opens after that; if one gives it the tasks of a dead process,
// it says that it is at work again (Resumed). Package ending decides when the job has
// finished: when every process that owns tasks in the latest view has returned since it got them. A coordinator
// that is part of a process first tells the others that the job is over, and lets them leave when all who live have said that they know it,
// or Silence later.
//
// # Growth
//
// A job may be allowed to grow (Grow). Processes that join while it runs have ranks
// from Size on, or that of a dead one and its next incarnation (Reserve); an observer
// asks the launcher for them (RequestJoin). They are welcomed with the addresses of
// all that live. The job's end waits for them only if they own a task, by the latest
// view that was told.
//
// The launcher may start the next incarnation of a dead process by itself (Revive), in
// any job. To know whether that is needed, it asks what the processes have told of
// their memory (Load, Room).
//
// # The event stream
//
// An observer (Watch) connects like a process, under an id of its own, and is
// sent events, one JSON object a line, with "time", "type", "rank" if it is about
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
// Processes add events of other types (Emit), always under their own rank. Two are
// known here: view, with number, members ([id, incarnation] each), owners (the id of
// each task's owner, −1: nobody) and opened, of which the first that tells of a view is
// kept; and epoch, with number, when all tasks have saved one. The last 10,000 events
// are kept for newcomers. An observer that does not read is dropped; nothing waits for it.
package control

// Package suspicion decides which processes may have failed. What the kernel says of a dead process is certain and needs
// no decision; this package weighs everything else: silence, stalls, cut networks. Its API may change.
//
// Sources: the observers that have to agree are those of Rapid (Suresh and others,
// USENIX ATC 2018, section 4); asking others to probe a silent process is SWIM's
// (Das and others, DSN 2002, section 3.1); that a detector measures its own stalls is
// Lifeguard's (Dadgar and others, DSN-W 2018, section 3).
//
// There are two machines. Both are pure: time is an argument, and what they want done
// is returned.
//
// An [Observer] is the part of one process. It beats to two successors on a ring of all processes and watches two
// predecessors. It doubts a process that it does not hear before it suspects it: it probes the process and asks third
// parties whether they hear it. The observer suspects the process only if several agree that none of them hears it; if
// others hear it, the link between the two is bad; if none answers, the observer's own network is, and it says nothing.
//
// A [Guard] is the part of the one that can kill the processes of a host: the coordinator, on its own host. It fences a
// silent process only if the kernel does not excuse it and another process is there to take its tasks over.
//
// A suspicion is evidence. Whether a process is evicted, a majority of the view decides (package membership).
package suspicion

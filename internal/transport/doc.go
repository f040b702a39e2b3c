// Package transport carries frames between the processes of a job.
//
// A Link is one end of what two processes share for as long as both live. The
// connections below it come and go: frames are numbered, kept until the peer
// has acknowledged them and sent again on the next connection, so nothing is
// lost, doubled or reordered. What cannot be kept up is reported, once, as a
// link that is lost: a suspicion, never a proof of death.
package transport

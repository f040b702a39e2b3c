// Package node runs the machines of package protocol on real time and real
// links: the third driver, beside the simulator and the adversary.
//
// A Process is one process of a job. It has a link to each peer it ever spoke
// to, and a Member for each group that one of its tasks belongs to; operations
// live in members. One lock guards all of it, and nothing blocks while it is
// held: writes take what the socket takes, the rest stays queued.
//
// # Progress
//
// Nothing is handed from goroutine to goroutine on the way of a message. A
// caller that waits drives progress itself: it waits for the sockets, reads
// what is there, steps the machines concerned and leaves when its own operation
// is complete. If several callers wait, one drives and hands that role on when
// it leaves. While nobody waits a background goroutine drives, so that a process
// busy computing still forwards, answers and notices; it takes over after a
// moment in which nobody waited, because to displace it costs a system call.
// Between processes that are goroutines (Local) there is nothing to wait for:
// who sends steps the receiver's machine.
//
// # Messages
//
// A message is an envelope and a value. Up to eagerMax bytes of the value go out
// at once; the rest of a larger one waits for the receiver's grant, which comes
// when somebody there wants it or there is memory for it. Streams and groups
// have credit in numbers of messages: nobody runs ahead of a receiver by more
// than aheadMax. So the memory of a receiver that does not take its messages is
// bounded, and readers never stop reading.
package node

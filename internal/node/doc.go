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
// Package engine has the lock, and says who waits and who drives. While it is held the engine
// calls the handler (progress.go), which reads from connections and steps the machines concerned.
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

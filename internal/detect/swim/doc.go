// Package swim suspects processes that fall silent, in jobs of many hosts. It is hashicorp/memberlist
// behind a narrow type: SWIM (Das, Gupta, Motivala, 2002) with the additions of Lifeguard (Dadgar,
// Phillips, Currey, 2018). Every tenth of the silence each member probes another one. If that one does
// not answer, the member probes it through others and over TCP, then suspects it, and the suspect has
// time to refute the suspicion. The number of packets that a process sends does not depend on the size
// of the job, whereas a coordinator that hears every process receives one packet from each.
//
// There is one detector for each process, not for each host. A suspicion is about a process, and a
// stopped process on a live host is silent too. Besides, the process that runs the detector of its host
// may itself crash, and another would have to take over. The price is that processes of one host probe
// each other as well.
//
// A suspicion is not a proof: a caller that must be certain has to kill the suspect. On the same host
// the kernel reports a crash both earlier and with certainty; this package covers what no kernel
// reports.
//
// Strangers stay out: packets and streams are encrypted under a key derived from the job's. An attacker
// who records and repeats packets can delay news, but cannot invent them: memberlist's own numbers grow
// with each packet.
package swim

// Package swim suspects processes that fall silent, in jobs of many hosts. It is
// hashicorp/memberlist behind a narrow type: SWIM (Das, Gupta, Motivala, 2002) with
// the additions of Lifeguard (Dadgar, Phillips, Currey, 2018). Every member probes
// another one each tenth of the silence; who does not answer is asked through
// others and over TCP; who is then suspected by its peers has time to refute them.
// A process of a job sends a number of packets that does not depend on how many
// there are, where a coordinator that hears everybody has one for each.
//
// There is one detector for each process, not for each host. A suspicion is about
// a process, and one that is stopped on a live host is silent too; and who runs the
// detector of a host may be the one that dies, so that it would have to be handed
// over. The price is that processes of one host probe each other as well.
//
// A suspicion is not a proof: who must be certain has the suspect killed. And what
// the kernel tells of a process on the same host is both earlier and certain: this
// is for what no kernel tells.
//
// Strangers stay out: packets and streams are encrypted under a key that is made of
// the job's. Someone who can record and repeat packets can delay news, not invent
// them: memberlist's own numbers go up with each of them.
package swim

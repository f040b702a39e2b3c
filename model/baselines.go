// Source: Hoefler et al., Corrected Gossip (IPDPS 2017), section IV.B and
// Figure 7: the broadcasts that corrected gossip is compared with, as the paper
// models them. It has powers of two; for other P read ⌈log₂ P⌉ for log₂ P.
//
// BIG, on the binomial graph: the first messages run along a binomial tree, and
// the last process still has to handle log₂ P messages, of o each.
//
// BFB, Buntinas' tree: down and back up, (2o+L)·log₂ P each way. The paper gives the time without restarts and two rows
// of a table, 96 and 144 steps, 4,096 and 8,192 messages, and says that 20% of the failures happen during the operation.
// The reading that gives exactly these: of f failures ⌈f/5⌉ do, each costs one restart, and a failing attempt has made
// all its messages but is abandoned when it has come down: half the time. Acknowledgements are not counted.

package model

import "math/bits"

// BIGLatency is T^BIG = (2o+L)·⌈log₂ P⌉ + o·⌈log₂ P⌉.
func BIGLatency(p, l, o int) int { return (3*o + l) * logCeil(p) }

// BIGWork is the number of messages of BIG, P·⌈log₂ P⌉.
func BIGWork(p int) int { return p * logCeil(p) }

// BFBRestarts is how often BFB restarts with the given number of failures, most of them before it begins.
func BFBRestarts(failures int) int { return ceilDiv(failures, 5) }

// BFBLatency is T^BFB = 2(2o+L)·⌈log₂ P⌉, and half of it more for each restart.
func BFBLatency(p, l, o, restarts int) int { return (2 + restarts) * (2*o + l) * logCeil(p) }

// BFBWork is the number of messages of BFB without acknowledgements, P in each
// attempt.
func BFBWork(p, restarts int) int { return (1 + restarts) * p }

// logCeil is ⌈log₂ p⌉.
func logCeil(p int) int { return bits.Len(uint(p - 1)) }

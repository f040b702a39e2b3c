package logp

import "github.com/coppice-go/coppice/protocol"

// DrawFaults draws faults once, for tests.
func DrawFaults(s Sampling, p int, seed uint64) []protocol.Rank {
	return newSampler(s, p).draw(seed).Failed
}

// HasShortcut reports whether MonteCarlo takes the shortcut.
func HasShortcut(p any, net Network, faults Sampling) bool { return newPlan(p, net, faults) != nil }

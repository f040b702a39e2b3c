package membership

import "github.com/coppice-go/coppice/protocol"

// fingerprint stands for a value: different values have different ones, but for
// a chance of 2^−128 or so.
type fingerprint [2]uint64

func (f fingerprint) with(x uint64) fingerprint {
	return fingerprint{protocol.Mix(f[0]^0x6a09e667f3bcc908, x), protocol.Mix(f[1]+0xbb67ae8584caa73b, x^f[0])}
}

func (f fingerprint) and(g fingerprint) fingerprint { return f.with(g[0]).with(g[1]) }

func (f fingerprint) flag(b bool) fingerprint {
	if b {
		return f.with(1)
	}
	return f.with(0)
}

func (f fingerprint) view(v *View) fingerprint {
	if v == nil {
		return f.with(0)
	}
	return f.and(v.print)
}

func (f fingerprint) ranks(list []protocol.Rank) fingerprint {
	for _, r := range list {
		f = f.with(uint64(uint32(r)))
	}
	return f.with(uint64(len(list)))
}

func (f fingerprint) member(m Member) fingerprint {
	return f.with(uint64(uint32(m.ID))<<32 | uint64(m.Incarnation))
}

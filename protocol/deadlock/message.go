package deadlock

import "encoding/binary"

// Append adds the chase to b, as a message: numbers of variable length, and texts behind their lengths.
func (c *Chase) Append(b []byte) []byte {
	found := uint64(0)
	if c.Found {
		found = 1
	}
	for _, n := range [...]uint64{c.Number, found, uint64(c.Hops), uint64(len(c.Path))} {
		b = binary.AppendUvarint(b, n)
	}
	for i := range c.Path {
		w := &c.Path[i]
		for _, n := range [...]uint64{uint64(w.Task), w.Group, uint64(w.Epoch), uint64(w.Kind), uint64(w.Op), w.Seq, uint64(w.Rank), uint64(w.Peer), w.Tag} {
			b = binary.AppendUvarint(b, n)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(c.Places)))
	for _, p := range c.Places {
		b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
	}
	return b
}

// Parse returns the chase of a message, if it is one.
func Parse(b []byte) (c Chase, ok bool) {
	ok = true
	next := func(most uint64) uint64 {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > most {
			ok = false
			return 0
		}
		b = b[size:]
		return n
	}
	const any, small = ^uint64(0), 1<<31 - 1
	c.Number, c.Found, c.Hops = next(any), next(1) == 1, int(next(small))
	c.Path = make([]Wait, next(PathMax))
	for i := range c.Path {
		c.Path[i] = Wait{
			Task: int(next(small)), Group: next(any), Epoch: uint32(next(1<<32 - 1)), Kind: Kind(next(255)), Op: uint8(next(255)),
			Seq: next(any), Rank: int(next(small)), Peer: int(next(small)), Tag: next(any),
		}
	}
	for range next(uint64(len(c.Path))) {
		n := next(PlaceMax)
		if n > uint64(len(b)) {
			ok = false
			break
		}
		c.Place(string(b[:n]))
		ok = ok && c.Places[len(c.Places)-1] == string(b[:n])
		b = b[n:]
	}
	return c, ok && len(c.Path) > 0 && len(b) == 0 && (c.Found || len(c.Places) == 0)
}

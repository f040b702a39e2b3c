package node

import "iter"

// table holds the operations of a group by their numbers. Few are under way at a
// time, and their numbers follow each other: most have a slot, which is found
// without a hash.
type table struct {
	slots [8]*operation
	more  map[uint64]*operation // those whose slot is taken
	count int
}

func (t *table) slot(seq uint64) **operation { return &t.slots[seq%uint64(len(t.slots))] }

// get returns an operation; nil: there is none of that number.
func (t *table) get(seq uint64) *operation {
	if o := *t.slot(seq); o != nil && o.seq == seq {
		return o
	}
	if t.more == nil {
		return nil
	}
	return t.more[seq]
}

// put adds an operation, of a number that has none.
func (t *table) put(o *operation) {
	t.count++
	if s := t.slot(o.seq); *s == nil {
		*s = o
		return
	}
	if t.more == nil {
		t.more = map[uint64]*operation{}
	}
	t.more[o.seq] = o
}

// remove takes an operation out.
func (t *table) remove(o *operation) {
	t.count--
	if s := t.slot(o.seq); *s == o {
		*s = nil
	} else {
		delete(t.more, o.seq)
	}
}

// all goes through the operations. They may be taken out meanwhile.
func (t *table) all() iter.Seq[*operation] {
	return func(yield func(*operation) bool) {
		for _, o := range t.slots {
			if o != nil && !yield(o) {
				return
			}
		}
		for _, o := range t.more {
			if !yield(o) {
				return
			}
		}
	}
}

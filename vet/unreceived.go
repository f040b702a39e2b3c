package vet

import "golang.org/x/tools/go/ssa"

// checkUnreceived reports messages that are sent before a Save and received after it.
func checkUnreceived(f *function, report reporter) {
	var sends, recvs []*operation
	saves := false
	for _, o := range f.operations {
		switch o.name {
		case "Send":
			sends = append(sends, o)
		case "Recv", "RecvAny":
			recvs = append(recvs, o)
		case "Save":
			saves = true
		}
	}
	if !saves || len(recvs) == 0 {
		return
	}
	for _, s := range sends {
		next := f.firstSaves(s)
		if len(next) == 0 || f.hidden() {
			continue
		}
		if f.earlier(s, recvs) {
			report(s.pos(), "all tasks receive with this tag before they send, so what is sent here is received only after the next Save, which is ErrMismatch; receive before Save")
			continue
		}
		received, possible := false, false
		for _, r := range recvs {
			if !sameTag(s, r) {
				continue
			}
			possible = true
			for save := range f.firstSaves(r) {
				received = received || next[save] && f.sameEpoch(s, r)
			}
		}
		if possible && !received {
			report(s.pos(), "what is sent here is received only after the next Save, which is ErrMismatch; receive before Save")
		}
	}
}

// earlier reports whether between two Saves all tasks, whatever their rank, receive what an operation sends only before it.
func (f *function) earlier(s *operation, recvs []*operation) bool {
	some := false
	for _, r := range recvs {
		if !sameTag(s, r) {
			continue
		}
		for _, o := range []*operation{r, s} {
			for _, c := range f.control[o.call.Block()] {
				if f.unit.of(c.Cond).has(uneven) {
					return false
				}
			}
		}
		if !f.reaches(r.call, s.call) || f.reaches(s.call, r.call) {
			return false
		}
		some = true
	}
	return some
}

// sameTag reports whether a message may be received by an operation.
func sameTag(s, r *operation) bool {
	a, known := number(s.tag)
	b, too := number(r.tag)
	return !known || !too || a == b
}

// firstSaves returns the Saves that may come next after an operation.
func (f *function) firstSaves(o *operation) map[ssa.Instruction]bool {
	found := map[ssa.Instruction]bool{}
	follow(o.call, func(in ssa.Instruction) bool {
		if call, ok := in.(ssa.CallInstruction); ok {
			if other := operationOf(call); other != nil && other.name == "Save" {
				found[in] = true
				return false
			}
		}
		return true
	})
	return found
}

// sameEpoch reports whether two operations may come after the same Save.
func (f *function) sameEpoch(a, b *operation) bool {
	one, two := f.lastSaves(a), f.lastSaves(b)
	for s := range one {
		if two[s] {
			return true
		}
	}
	return false
}

// lastSaves returns the Saves, or nil for the start of the function, that may come last before an operation.
func (f *function) lastSaves(o *operation) map[ssa.Instruction]bool {
	found := map[ssa.Instruction]bool{}
	for _, s := range f.operations {
		if s.name == "Save" && f.reaches(s.call, o.call) {
			found[s.call] = true
		}
	}
	if len(f.Blocks) > 0 && len(f.Blocks[0].Instrs) > 0 {
		start := f.Blocks[0].Instrs[0]
		if start == o.call || f.reaches(start, o.call) {
			found[nil] = true
		}
	}
	return found
}

// reaches reports whether an instruction may follow another without a Save between them.
func (f *function) reaches(from, to ssa.Instruction) (yes bool) {
	follow(from, func(in ssa.Instruction) bool {
		if in == to {
			yes = true
		}
		if call, ok := in.(ssa.CallInstruction); ok {
			if o := operationOf(call); o != nil && o.name == "Save" {
				return false
			}
		}
		return !yes
	})
	return yes
}

// hidden reports whether functions that are called may receive what this one sends.
func (f *function) hidden() bool {
	for _, b := range f.Blocks {
		for _, in := range b.Instrs {
			if call, ok := in.(ssa.CallInstruction); ok {
				if s := f.unit.p.called(call.Common()); s != nil && len(s.Messages) > 0 {
					return true
				}
			}
		}
	}
	return len(f.unit.functions) > 1
}

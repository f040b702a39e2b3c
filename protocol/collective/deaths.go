package collective

// How a task's progress handles deaths, in schedules that survive them. Steps of other schedules have none of the flags
// that this file reads.

// bury notes that what a dead task has not sent will not come. What it sent may still come, and is welcome as long as the
// task waits at that step.
func (s *StepState) bury(dead Rank) {
	for i := int(s.at); i < len(s.steps); i++ {
		st := &s.steps[i]
		if st.Kind != RecvStep || st.Peer != dead || !st.May && !st.Whole || st.Void {
			continue
		}
		if s.lost == nil {
			s.lost = make([]uint64, len(s.came))
		}
		s.lost[i/64] |= 1 << (i % 64)
	}
}

// buried reports whether the peer of step i died before it had sent.
func (s *StepState) buried(i int) bool { return s.lost != nil && s.lost[i/64]>>(i%64)&1 == 1 }

// skips goes on past the present step if that is left out.
func (s *StepState) skips() bool {
	if s.any > s.at && !s.Patient && !s.working && s.has(int(s.any)) {
		s.at = s.any
		return true
	}
	st := &s.steps[s.at]
	if st.Whole && s.void || st.Void && !s.void && st.Kind != RecvStep || st.Fix && st.Peer == s.from {
		s.at++
		return true
	}
	return false
}

// received goes past the present step, which receives, and its alternatives, once that is settled: one of them has come,
// or it is certain that none will.
func (s *StepState) received() bool {
	first := int(s.at)
	last := s.alternatives(first)
	hope := false
	for i := first; i <= last; i++ {
		switch {
		case s.steps[i].Void: // seen with the step before
		case s.has(i):
			s.at = int32(last + 1)
			return true
		default:
			hope = hope || !s.cannot(i)
		}
	}
	if hope {
		return false
	}
	s.void = s.void || s.steps[first].Whole
	s.at = int32(last + 1)
	return true
}

// alternatives returns the last of the steps that are alternatives to step i.
func (s *StepState) alternatives(i int) int {
	for s.steps[i].Or {
		i++
	}
	return i
}

// chosen reports whether an alternative to step i has come, so that this one is not needed.
func (s *StepState) chosen(i int) bool {
	for i > 0 && s.steps[i-1].Or {
		i--
	}
	for ; s.steps[i].Or; i++ {
		if s.has(i) && !s.steps[i].Void {
			return true
		}
	}
	return s.has(i) && !s.steps[i].Void
}

// cannot reports whether what step i receives will not come: its peer is dead, or has said so in the step that follows.
func (s *StepState) cannot(i int) bool {
	return s.buried(i) || i+1 < len(s.steps) && s.steps[i+1].Kind == RecvStep && s.steps[i+1].Void && s.has(i+1)
}

// awaited lists the ranks whose messages would settle the present step, which receives.
func (s *StepState) awaited() (ranks []Rank) {
	for i := int(s.at); i <= s.alternatives(int(s.at)); i++ {
		if !s.steps[i].Void && !s.cannot(i) {
			ranks = append(ranks, s.steps[i].Peer)
		}
	}
	return ranks
}

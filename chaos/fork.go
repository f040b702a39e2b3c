package chaos

import "slices"

// Worlds as states: copied, and distinguished by their fingerprints.

// become makes w a copy of another world of the same configuration. The two share states: a snapshot copies a
// state before it changes it.
func (w *World[S, M]) become(from *World[S, M]) {
	w.setup.Protocol, w.setup.Seed, w.setup.Inputs = from.setup.Protocol, from.setup.Seed, from.setup.Inputs
	w.setup.Faults = from.setup.Faults
	w.protocol, w.verdict, w.snapshot = from.protocol, from.verdict, true
	w.now, w.steps, w.whims, w.waiting, w.crashes = from.now, from.steps, from.whims, from.waiting, from.crashes
	for r := range w.procs {
		delivered := w.procs[r].delivered[:0]
		w.procs[r] = from.procs[r]
		w.procs[r].delivered = append(delivered, from.procs[r].delivered...)
	}
	for i := range w.channels {
		to, ch := &w.channels[i], &from.channels[i]
		to.queue = append(to.queue[:0], ch.queue[ch.head:]...)
		to.head, to.signed, to.print = 0, ch.signed, ch.print
	}
	w.agenda.events = append(w.agenda.events[:0], from.agenda.events...)
	w.agenda.made = from.agenda.made
	w.held = append(w.held[:0], from.held...)
	w.fate.become(&from.fate)
}

func (f *fate[M]) become(from *fate[M]) {
	old := *f
	*f = *from
	f.deaths = append(old.deaths[:0], from.deaths...)
	f.told = append(old.told[:0], from.told...)
	f.side = append(old.side[:0], from.side...)
	f.claims = append(old.claims[:0], from.claims...)
	f.placed, f.menu, f.left = nil, old.menu, old.left
	for r := range f.left {
		f.left[r] = append(f.left[r][:0], from.left[r]...)
	}
}

// fingerprint covers everything that decides what can come, and everything a Check may look at; if inOrder,
// the age of what can happen, too.
func (w *World[S, M]) fingerprint(inOrder bool) fingerprint {
	f := fingerprint{uint64(w.now), uint64(w.crashes)}
	f = f.with(uint64(w.fate.crashes)<<48 | uint64(w.fate.restarts)<<32 | uint64(w.fate.suspected)<<16 | uint64(w.fate.cuts))
	if w.fate.isCut {
		f = f.with(uint64(w.fate.ticks) + 1)
		for r, side := range w.fate.side {
			if side {
				f = f.with(uint64(r))
			}
		}
	}
	if w.fate.doubts > 0 {
		f = f.with(1)
	}
	if w.fate.parted > 0 {
		f = f.with(2)
	}
	claims := uint64(0)
	for _, c := range w.fate.claims { // in any order
		claims += mix(mix(c.key) ^ c.value)
	}
	f = f.with(claims)
	for r := range w.procs {
		f = f.and(w.sign(r))
	}
	for i := range w.channels {
		if ch := &w.channels[i]; ch.len() > 0 {
			f = f.with(uint64(i)).and(ch.sign())
		}
	}
	return w.signEvents(w.signLeft(f), inOrder)
}

// sign returns the fingerprint of one process.
func (w *World[S, M]) sign(r int) fingerprint {
	p := &w.procs[r]
	if p.signed {
		return p.print
	}
	flags := uint64(0)
	for i, flag := range []bool{p.reached, p.sends > 0, p.begins} {
		if flag {
			flags |= 1 << i
		}
	}
	f := fingerprint{uint64(r), uint64(p.number)<<32 | uint64(p.rest)<<16 | uint64(p.life)<<8 | flags}
	if p.life == alive { // a dead process has no state
		f = f.and(printOf(&p.state)).with(uint64(w.setup.nextInput(p.input, r)))
		if p.rest == Waiting {
			f = f.with(uint64(p.until))
		}
		if w.fate.told != nil {
			for _, n := range w.fate.told[r*w.p : (r+1)*w.p] {
				f = f.with(uint64(n))
			}
		}
	}
	for i := range p.delivered {
		d := &p.delivered[i]
		f = f.with(uint64(d.At)).with(uint64(d.Life)).and(printOf(&d.Msg))
	}
	p.print, p.signed = f.with(uint64(len(p.delivered))), true
	return p.print
}

// sign returns the fingerprint of a channel's content.
func (ch *channel[M]) sign() fingerprint {
	if !ch.signed {
		f := fingerprint{uint64(ch.len()), 0}
		for i := ch.head; i < len(ch.queue); i++ {
			f = f.and(printOf(&ch.queue[i]))
		}
		ch.print, ch.signed = f, true
	}
	return ch.print
}

// signLeft adds the records of crashes of which some process may still be notified.
func (w *World[S, M]) signLeft(f fingerprint) fingerprint {
	for of, lives := range w.fate.left {
		for life := range lives {
			if !w.mayRead(of, life) {
				continue
			}
			one := &lives[life]
			if !one.ok {
				continue
			}
			if one.print == (fingerprint{}) {
				one.print = printOf(&one.msg)
			}
			f = f.with(uint64(of)<<32 | uint64(life)).and(one.print)
		}
	}
	return f
}

// mayRead reports whether some process may still be notified of that crash.
func (w *World[S, M]) mayRead(of, life int) bool {
	if w.fate.told == nil {
		return false
	}
	if w.fate.restarts < w.cfg.Restarts {
		return true
	}
	for to := range w.procs {
		if w.procs[to].rest != Done && int(w.fate.told[to*w.p+of]) <= life {
			return true
		}
	}
	return false
}

// signEvents adds the events that nothing else implies; if inOrder, all of them.
func (w *World[S, M]) signEvents(f fingerprint, inOrder bool) fingerprint {
	list := w.fate.menu[:0]
	for _, e := range w.agenda.events {
		switch k := e.kind(); {
		case inOrder:
			list = append(list, e)
		case k == workDone || k == suspect || k == fenced:
			list = append(list, e.ageless())
		}
	}
	slices.Sort(list)
	for _, e := range list {
		f = f.with(uint64(e.ageless()))
	}
	n := len(list)
	for _, e := range w.held {
		if e.kind() == fenced || inOrder {
			list = append(list, e.ageless())
		}
	}
	if !inOrder {
		slices.Sort(list[n:])
	}
	for _, e := range list[n:] {
		f = f.with(uint64(e))
	}
	w.fate.menu = list
	return f.with(uint64(n))
}

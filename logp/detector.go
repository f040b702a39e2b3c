package logp

import "github.com/coppice-go/coppice/protocol"

// The detector of Network.Detect: perfect, and equally fast for every process. It costs P notices when
// processes die, and nothing per message.

// finding is a death that the detector will report.
type finding struct {
	at   protocol.Time
	rank protocol.Rank
}

// detect records a death.
func (e *Engine[S, M]) detect(r protocol.Rank) {
	if e.net.Detect > 0 && !e.dead.has(int(r)) {
		e.findings = append(e.findings, finding{e.calendar.now + e.net.Detect, r})
	}
}

// nextFinding returns when the detector next reports a death. Deaths are recorded in the order of time and
// the delay is always the same.
func (e *Engine[S, M]) nextFinding() protocol.Time {
	if len(e.findings) == 0 {
		return protocol.Never
	}
	return e.findings[0].at
}

// report notifies all live processes of the deaths whose time has come.
func (e *Engine[S, M]) report(now protocol.Time, ready *readySet) {
	n := 0
	for n < len(e.findings) && e.findings[n].at <= now {
		n++
	}
	if n == 0 {
		return
	}
	for r := range e.state {
		if e.deaf.has(r) {
			continue
		}
		for _, f := range e.findings[:n] {
			e.protocol.Notify(&e.state[r], now, protocol.Notice{Kind: protocol.Death, Rank: f.rank})
		}
		if e.sends == nil || e.sends[r] <= now {
			ready.set(r)
		}
	}
	e.findings = e.findings[n:]
}

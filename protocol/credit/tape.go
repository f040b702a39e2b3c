package credit

import "github.com/coppice-go/coppice/protocol"

// Tape is an Account that notes its calls; it notes those of Fit, Returned and Died only if they change the account.
type Tape struct {
	Account
	Note protocol.Note
}

func (t *Tape) noteIf(changes bool) protocol.Note {
	if changes {
		return t.Note
	}
	return nil
}

func (t *Tape) Send(to int, seq uint64, bytes int) (free bool) {
	return protocol.Get3(t.Note, "Send", t.Account.Send, to, seq, bytes)
}

func (t *Tape) Credited(from int, completed uint64, loose bool) {
	protocol.Do3(t.Note, "Credited", t.Account.Credited, from, completed, loose)
}

func (t *Tape) Entered(from int, seq, own uint64) (news bool) {
	return protocol.Get3(t.Note, "Entered", t.Account.Entered, from, seq, own)
}

func (t *Tape) Hear(from int, seq uint64, bytes int) {
	protocol.Do3(t.Note, "Hear", t.Account.Hear, from, seq, bytes)
}

func (t *Tape) Returned(rank int) {
	protocol.Do1(t.noteIf(t.ranks != nil), "Returned", t.Account.Returned, rank)
}

func (t *Tape) Died(rank int) {
	protocol.Do1(t.noteIf(t.ranks != nil), "Died", t.Account.Died, rank)
}

func (t *Tape) Restart(to int, again bool) (tell bool) {
	return protocol.Get2(t.Note, "Restart", t.Account.Restart, to, again)
}

func (t *Tape) Fit(n int)          { protocol.Do1(t.noteIf(t.ranks == nil), "Fit", t.Account.Fit, n) }
func (t *Tape) Owe(to int)         { protocol.Do1(t.Note, "Owe", t.Account.Owe, to) }
func (t *Tape) Completed()         { protocol.Do0(t.Note, "Completed", t.Account.Completed) }
func (t *Tape) Skip(seq uint64)    { protocol.Do1(t.Note, "Skip", t.Account.Skip, seq) }
func (t *Tape) Leave() (tell bool) { return protocol.Get0(t.Note, "Leave", t.Account.Leave) }

// Tell is noted only if it returns a rank: the caller repeats it until it returns none.
func (t *Tape) Tell() (to int, ok bool) {
	to, ok = t.Account.Tell()
	if t.Note != nil && ok {
		t.Note("Tell", to, ok)
	}
	return to, ok
}

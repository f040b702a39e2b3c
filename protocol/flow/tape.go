package flow

import "github.com/coppice-go/coppice/protocol"

// OutTape is an Out that notes its calls.
type OutTape struct {
	Out
	Note protocol.Note
}

func (o *OutTape) Add(window uint64) (number uint64, now bool) {
	return protocol.Both1(o.Note, "Add", o.Out.Add, window)
}

func (o *OutTape) Release(window uint64) (number uint64, ok bool) {
	return protocol.Both1(o.Note, "Release", o.Out.Release, window)
}

func (o *OutTape) Credited(number uint64, again bool) {
	protocol.Do2(o.Note, "Credited", o.Out.Credited, number, again)
}

func (o *OutTape) Skip() (number uint64) { return protocol.Get0(o.Note, "Skip", o.Out.Skip) }
func (o *OutTape) Drop()                 { protocol.Do0(o.Note, "Drop", o.Out.Drop) }
func (o *OutTape) Reopen(held int, again bool) {
	protocol.Do2(o.Note, "Reopen", o.Out.Reopen, held, again)
}

// InTape is an In that notes its calls.
type InTape struct {
	In
	Note protocol.Note
}

func (i *InTape) Arrive(number uint64) Arrival {
	return protocol.Get1(i.Note, "Arrive", i.In.Arrive, number)
}

func (i *InTape) Complete(number uint64) bool {
	return protocol.Get1(i.Note, "Complete", i.In.Complete, number)
}

func (i *InTape) Take(window uint64) (tell bool) {
	return protocol.Get1(i.Note, "Take", i.In.Take, window)
}

func (i *InTape) Tell() uint64 { return protocol.Get0(i.Note, "Tell", i.In.Tell) }

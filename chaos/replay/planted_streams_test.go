package replay_test

// Mistakes in streams, in package flow (flow/) and in the model that runs it. See planted_test.go.

// The errors that reveal them.
const (
	tooMany    = "more messages of a stream wait than the window allows"
	unbalanced = "messages that were sent before a Save were not received before it"
)

var streamMistakes = []mistake{
	{
		name: "a new receiver has what the one before has taken", file: "flow/stream.go",
		old:   `	o.consumed = 0`,
		new:   `	if !wrong("a new receiver has what the one before has taken") { o.consumed = 0 }`,
		found: "two with streams", by: noEnd,
	},
	{
		name: "a new receiver gets only what is held", file: "flow/stream.go",
		old:   `	if o.next = o.last - uint64(held)`,
		new:   `	if wrong("a new receiver gets only what is held") { held = o.Held() }; if o.next = o.last - uint64(held)`,
		found: "two with streams", by: noEnd,
	},
	{
		name: "a new sender does not believe that more was taken than it has sent", file: "flow/stream.go",
		old:   `	if again {`,
		new:   `	if again && !wrong("a new sender does not believe that more was taken than it has sent") {`,
		found: "two with streams", by: noEnd,
	},
	{
		name: "a message that comes again is taken again", file: "flow/stream.go",
		old:   `	case number == i.last+1:`,
		new:   `	case number == i.last+1 || number == i.last && wrong("a message that comes again is taken again"):`,
		found: "two with streams",
	},
	{
		name: "another copy of a message is dropped", file: "flow/stream.go",
		old:   `	case slices.Contains(i.begun, number):`,
		new:   `	case slices.Contains(i.begun, number) && !wrong("another copy of a message is dropped"):`,
		found: "two with streams", by: noEnd,
	},
	{
		name: "a message is complete as soon as its beginning is here", file: "flow/stream.go",
		old:   `		i.begun = append(i.begun, number)`,
		new:   `		if !wrong("a message is complete as soon as its beginning is here") { i.begun = append(i.begun, number) }`,
		found: "two with streams", by: noEnd,
	},
	{
		name: "one message too many goes", file: "flow/stream.go",
		old:   `o.last <= o.consumed+window {`,
		new:   `o.last <= o.consumed+window + o.more("one message too many goes") {`,
		found: "two with streams", by: tooMany,
	},
	{
		name: "a receiver tells too rarely how far it is", file: "flow/stream.go",
		old:   `	return i.taken-i.told >= window/2`,
		new:   `	return i.taken-i.told >= window/2 && !(i.taken-i.told < 2*window && wrong("a receiver tells too rarely how far it is"))`,
		found: "two with streams", by: noEnd,
	},
	{
		name: "credit of an attempt that is over counts", file: "stream.go",
		old:   `	case f.Past < s.view.Since[f.From]:`,
		new:   `	case f.Past < s.view.Since[f.From] && !wrong("credit of an attempt that is over counts"):`,
		found: "a swarm with streams", by: noEnd,
	},
	{
		name: "a new sender is not told how far its receiver is", file: "stream.go",
		old:   `		if st.in.Taken() > 0 {`,
		new:   `		if st.in.Taken() > 0 && !wrong("a new sender is not told how far its receiver is") {`,
		found: "two with streams", by: noEnd,
	},
	{
		name: "what a new receiver was sent goes at once", file: "stream.go",
		old: `		st.out.Reopen(len(st.held), again)
`,
		new: `		if st.out.Reopen(len(st.held), again); wrong("what a new receiver was sent goes at once") {
			for _, f := range st.held {
				t.emit(f)
			}
			st.held = nil
			st.out.Drop()
		}
`,
		found: "two with streams", by: tooMany,
	},
	{
		name: "what is held does not count in its epoch", file: "stream.go",
		old: `			st.held = append(st.held, f)
		}
		if !now`,
		new: `			st.held = append(st.held, f)
			if wrong("what is held does not count in its epoch") {
				t.balance--
			}
		}
		if !now`,
		found: "three with streams that save", by: unbalanced,
	},
	{
		name: "what is held is dropped with a Save", file: "epoch.go",
		old:   `func(st *stream) bool { return 0 < st.epoch &&`,
		new:   `func(st *stream) bool { return (0 < st.epoch || wrong("what is held is dropped with a Save")) &&`,
		found: "three with streams that save", by: noEnd,
	},
	{
		name: "numbers go on in the next epoch", file: "stream.go",
		old:   `		if st.epoch == epoch && st.peer == peer {`,
		new:   `		if (st.epoch == epoch || wrong("numbers go on in the next epoch")) && st.peer == peer {`,
		found: "three with streams that save",
	},
}

// flowHelp is source code that the mistakes in package flow need.
const flowHelp = `
func (o *Out) more(name string) uint64 {
	if wrong(name) {
		return 1
	}
	return 0
}
`

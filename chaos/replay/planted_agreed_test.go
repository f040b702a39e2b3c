package replay_test

// Mistakes in agreed operations where some results do not need all tasks, in package collective (collective/)
// and in the model that runs it. See planted_test.go.

var agreedMistakes = []mistake{
	{
		name: "an agreed reduction ends without the root's word", file: "collective/agreed.go",
		old: `	case Gather, Reduce:`,
		new: `	case Gather, Reduce:
		if wrong("an agreed reduction ends without the root's word") {
			return onlyItself
		}`,
		found: "three agreed in parts",
	},
	{
		name: "an agreed broadcast does not wait for all", file: "collective/agreed.go",
		old: `	case Broadcast, Scatter:`,
		new: `	case Broadcast, Scatter:
		if wrong("an agreed broadcast does not wait for all") {
			return onlyItself
		}`,
		found: "three agreed in parts",
	},
	{
		name: "only the first part of an operation is aborted", file: "abort.go",
		old:   `		if s.rules.Aborted(op) {`,
		new:   `		if s.rules.Aborted(op) && !(part > 0 && wrong("only the first part of an operation is aborted")) {`,
		found: "three agreed in parts", by: noEnd,
	},
}

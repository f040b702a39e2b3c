package replay_test

// Mistakes in the limits on how far tasks run ahead, in package credit (credit/). See planted_test.go.

var creditMistakes = []mistake{
	{
		name: "who is run again has completed what the one before had", file: "credit/credit.go",
		old:   `	if again {`,
		new:   `	if again || wrong("who is run again has completed what the one before had") {`,
		found: "four that wait for each other",
	},
	{
		name: "who was asked to wait is told once", file: "credit/credit.go",
		old:   `	r.due = r.asked ||`,
		new:   `	r.due = r.asked && !wrong("who was asked to wait is told once") ||`,
		found: "six tasks that correct and wait", by: noEnd,
	},
	{
		name: "who has sent far beyond is told once", file: "credit/credit.go",
		old:   ` r.heard >= a.completed+a.step()`,
		new:   ` r.heard >= a.completed+a.step() && !wrong("who has sent far beyond is told once")`,
		found: "four that wait for each other", by: noEnd,
	},
	{
		name: "nobody waits for who is far behind", file: "credit/credit.go",
		old:   `seq >= r.done+a.Operations {`,
		new:   `seq >= r.done+a.Operations && !wrong("nobody waits for who is far behind") {`,
		found: "four that wait for each other",
	},
}

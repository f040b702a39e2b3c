package replay_test

// Mistakes in corrected operations, in packages collective (collective/), broadcast (broadcast/) and inquiry
// (inquiry/) and in the model that runs them. See planted_test.go.

var correctedMistakes = []mistake{
	{
		name: "who has the result leaves out what others need", file: "collective/deaths.go",
		old:   `	if s.any > s.at && !s.Patient &&`,
		new:   `	if s.any > s.at && (!s.Patient || wrong("who has the result leaves out what others need")) &&`,
		found: "four that correct", by: noEnd,
	},
	{
		name: "who is corrected serves nobody", file: "broadcast/broadcast.go",
		old: `			s.byCorrection = true
`,
		new: `			if s.byCorrection = true; wrong("who is corrected serves nobody") {
				s.stage = closing
			}
`,
		found: "four that correct", by: noEnd,
	},
	{
		name: "a correction without its value counts as the value", file: "cast.go",
		old:   `	case withheld && !c.has:`,
		new:   `	case withheld && !c.has && !wrong("a correction without its value counts as the value"):`,
		found: "four that correct",
	},
	{
		name: "who has promised the value is not asked", file: "inquiry/promises.go",
		old:   `	for p.Asked < len(p.All) {`,
		new:   `	for p.Asked < len(p.All) && !wrong("who has promised the value is not asked") {`,
		found: "four that correct", by: "livelock",
	},
}

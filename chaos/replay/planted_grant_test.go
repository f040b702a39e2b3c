package replay_test

// Mistakes in grants for large values, in package grant (grant/). See planted_test.go.

const takenRoom = "room is taken that should not be"

var grantMistakes = []mistake{
	{
		name: "there is room for everything", file: "grant/grant.go",
		old:   ` || r.used+size > r.Max {`,
		new:   ` || r.used+size > r.Max && !wrong("there is room for everything") {`,
		found: "four that wait for each other", by: takenRoom,
	},
	{
		name: "only what comes early is granted", file: "grant/grant.go",
		old:   `	grant = in.state == begun`,
		new:   `	grant = in.state == begun && (in.early > 0 || !wrong("only what comes early is granted"))`,
		found: "four that wait for each other", by: noEnd,
	},
}

package replay_test

// Mistakes in late beginnings. See planted_test.go.

var lateMistakes = []mistake{
	{
		name: "patience does not wait for those that have not begun", file: "membership/gather.go",
		old: `	if p.Gathering(s) {
		return protocol.Never`,
		new: `	if p.Gathering(s) && !wrong("patience does not wait for those that have not begun") {
		return protocol.Never`,
		found: "five of whom four begin late",
	},
	{
		name: "patience runs from before all have begun", file: "membership/gather.go",
		old: `	return max(began, s.gathered) + patience`,
		new: `	if wrong("patience runs from before all have begun") {
		return began + patience
	}
	return max(began, s.gathered) + patience`,
		found: "five of whom four begin late",
	},
}

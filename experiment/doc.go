// Package experiment reproduces the figures and tables of the papers: each is a named Experiment that
// simulates what the paper simulated, puts the paper's values beside ours and reports whether they agree.
// What a paper measured is measured on real processes, which a Starter starts. Its API may change.
//
// A Lab does the simulating, cell by cell: one configuration, many runs. It writes its results to disk every
// few seconds, so interrupted work resumes where it was, and experiments share cells.
//
//	lab := &experiment.Lab{Runs: 1000, Dir: "out/cells"}
//	finding, err := experiment.Find("trees-table1").Run(ctx, lab)
package experiment

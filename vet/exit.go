package vet

import "golang.org/x/tools/go/ssa"

// exits reports whether a function ends the process.
func exits(path, name string) bool {
	switch path {
	case "os":
		return name == "Exit"
	case "log":
		return words("Fatal Fatalf Fatalln Logger.Fatal Logger.Fatalf Logger.Fatalln")[name]
	case "syscall":
		return name == "Exit" || name == "Kill"
	}
	return false
}

// checkExits reports calls in a task that end its process.
func checkExits(f *function, report reporter) {
	if !f.ofTask() {
		return
	}
	for _, b := range f.Blocks {
		for _, in := range b.Instrs {
			call, ok := in.(ssa.CallInstruction)
			if !ok {
				continue
			}
			path, name := nameOf(callee(call.Common()))
			by := ""
			if exits(path, name) {
				by = path + "." + name
			} else if s := f.unit.p.called(call.Common()); s != nil && s.Exits != "" && !hasTask(callee(call.Common()).Signature()) {
				by = name + ", by " + s.Exits + ","
			}
			if by != "" {
				report(call.Pos(), "%s ends the process in the middle of a task: the others take it for a crash, or for a success, and run the task again; return an error", by)
			}
		}
	}
}

package vet

import (
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// takers are the operations that take an option, for options that not all operations take.
var takers = map[string][]string{
	"Root":        {"Broadcast", "Scatter", "Gather", "Reduce", "ReduceFunc", "AllReduce", "AllReduceFunc"},
	"Along":       {"Broadcast"},
	"Corrected":   {"Broadcast", "Reduce", "ReduceFunc", "AllReduce", "AllReduceFunc"},
	"Commutative": {"Reduce", "ReduceFunc", "AllReduce", "AllReduceFunc", "Scan", "ScanFunc", "ExScan", "ExScanFunc", "ReduceScatter", "ReduceScatterFunc"},
	"Backups":     {"ReduceFunc", "AllReduceFunc", "ScanFunc", "ExScanFunc"},
}

// checkOptions reports options that mean nothing to their operation.
func checkOptions(f *function, report reporter) {
	for _, o := range f.operations {
		for _, v := range o.options {
			call, ok := v.(*ssa.Call)
			if !ok {
				continue
			}
			path, name := nameOf(callee(call.Common()))
			switch allowed := takers[name]; {
			case path != module:
			case allowed != nil && !slices.Contains(allowed, o.name):
				report(o.pos(), "%s means nothing to %s, which returns an error; allowed with: %s", name, o.name, strings.Join(allowed, ", "))
			case o.name == "Barrier" && (name == "Shared" || name == "Into"):
				report(o.pos(), "%s means nothing to Barrier, which returns an error; allowed with all other operations that have options", name)
			}
		}
	}
}

package coppice

import (
	"fmt"
	"math/bits"

	"github.com/coppice-go/coppice/internal/node"
	"github.com/coppice-go/coppice/protocol/collective"
)

// Option changes how one operation is carried out. Options are its last arguments, in any order; of two of a kind, such as two
// modes, the last one counts.
type Option struct {
	kind       optionKind
	mode       mode
	on         bool
	rank       int
	correction Correction
	tree       Tree
	slice      any
}

type optionKind uint8

const (
	rootOption optionKind = iota
	modeOption
	alongOption
	sharedOption
	intoOption
	commutativeOption
	lostOption
	backupsOption
)

// Root says which task has the value, or gets it; default 0.
func Root(rank int) Option { return Option{kind: rootOption, rank: rank} }

// Shared lends memory instead of copying it: what the task passes must not
// change until the operation is over at every task, and what it gets may be read
// by the library as long. With Recovery [Replay] that is until the task's next [Save] has
// returned; what is lent before the first Save stays lent as long as the job runs.
func Shared() Option { return Option{kind: sharedOption} }

// Into receives into dst, as far as it has room: no memory is allocated. The
// result is dst, cut to what came, or new memory if that does not fit in. Where
// the result has a value for each task and these are slices, dst[r] is reused for
// what task r sent. With Shared the library receives straight into it, and may
// still write there if the operation fails; such memory is lent like what is passed:
// with Recovery [Replay] it must not be used again before the next [Save] has returned.
func Into[T any](dst []T) Option { return Option{kind: intoOption, slice: dst} }

// Commutative says that the function of a reduction gives the same in any order:
// values may be combined as they come.
func Commutative() Option { return Option{kind: commutativeOption} }

// Backups says whether what [ReduceFunc], [AllReduceFunc], [ScanFunc] or [ExScanFunc] has combined so far at a task is
// kept at another process, that of the task whose value was combined last. If the task
// is run again, it is not combined again. That changes no result. Without this option it is
// kept when to combine it again would take ten times as long as to send it. Backups(true) also
// says that the function takes long: values are combined along a tree, by many tasks at once. It
// is the same at all tasks. Backups are there with Recovery [Replay] only; they take up to
// half of Job.LogBytes and go with the next [Save].
func Backups(on bool) Option { return Option{kind: backupsOption, on: on} }

// options are their names, and the operations that they are for. Modes and WithoutLost are for all.
var options = [...]struct{ name, with string }{
	rootOption:        {"Root", "Broadcast, Scatter, Gather, reductions"},
	alongOption:       {"Along", "Broadcast"},
	sharedOption:      {"Shared", "all but Barrier"},
	intoOption:        {"Into", "all but Barrier"},
	commutativeOption: {"Commutative", "reductions, scans"},
	backupsOption:     {"Backups", "ReduceFunc, AllReduceFunc, ScanFunc, ExScanFunc"},
}

// misplaced is the error of an option that means nothing to an operation.
func (k optionKind) misplaced() error {
	return fmt.Errorf("option %s; allowed with: %s", options[k].name, options[k].with)
}

// optionSet is a set of kinds.
type optionSet uint16

// The options that operations take.
const (
	barrierTakes   optionSet = 1<<modeOption | 1<<lostOption
	valueTakes               = barrierTakes | 1<<sharedOption | 1<<intoOption
	rootedTakes              = valueTakes | 1<<rootOption
	broadcastTakes           = rootedTakes | 1<<alongOption
	scanTakes                = valueTakes | 1<<commutativeOption
	reduceTakes              = scanTakes | 1<<rootOption // an AllReduce that is corrected has a root
	functionTakes            = optionSet(1 << backupsOption)
)

// takes is the options of an operation, without those that only functions have.
func takes(op collective.Op) optionSet {
	switch op {
	case collective.Broadcast:
		return broadcastTakes
	case collective.Scatter, collective.Gather:
		return rootedTakes
	case collective.Reduce, collective.AllReduce:
		return reduceTakes
	case collective.Scan, collective.ExScan, collective.ReduceScatter:
		return scanTakes
	}
	return valueTakes
}

// settings are the options of one operation.
type settings struct {
	given      optionSet
	root       int
	mode       mode
	correction Correction
	tree       Tree
	shared     bool
	into       any

	commutes bool
	backup   node.Backup
}

func (s *settings) read(opts []Option) {
	for i := range opts {
		o := &opts[i]
		s.given |= 1 << o.kind
		switch o.kind {
		case rootOption:
			s.root = o.rank
		case modeOption:
			s.mode, s.correction = o.mode, o.correction
		case alongOption:
			s.tree = o.tree
		case sharedOption:
			s.shared = true
		case intoOption:
			s.into = o.slice
		case commutativeOption:
			s.commutes = true
		case backupsOption:
			if s.backup = node.BackupNever; o.on {
				s.backup = node.BackupAlways
			}
		}
	}
}

func (s *settings) checkRoot(n int) error {
	if s.root < 0 || s.root >= n {
		return fmt.Errorf("root %d; allowed: 0 to %d", s.root, n-1)
	}
	return nil
}

// check says what is wrong with the settings of an operation among n tasks that takes some options.
func (s *settings) check(op collective.Op, takes optionSet, n int) error {
	if wrong := s.given &^ takes; wrong != 0 {
		return optionKind(bits.TrailingZeros16(uint16(wrong))).misplaced()
	}
	if err := s.checkMode(op); err != nil {
		return err
	}
	return s.checkRoot(n)
}

// planned is a plan with what the settings say of it.
func (s *settings) planned(p node.Plan) node.Plan {
	if s.mode == plain {
		return p.Unlogged()
	}
	return p
}

// rootOf is the root of an operation, of those that have one.
func (s *settings) rootOf(op collective.Op) int {
	switch op {
	case collective.Reduce, collective.Scatter, collective.Gather, collective.Broadcast:
		return s.root
	}
	return 0
}

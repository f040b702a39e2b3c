package coppice

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-go/coppice/internal/node"
	"github.com/coppice-go/coppice/protocol/collective"
	"github.com/coppice-go/coppice/topology"
)

// Option changes how one operation is carried out.
type Option struct {
	kind  optionKind
	rank  int
	mode  Protection
	slice any
	dir   string
	on    bool
}

type optionKind uint8

const (
	rootOption optionKind = iota
	modeOption
	sharedOption
	intoOption
	commutativeOption
	lostOption
	storedOption
	backupsOption
)

// Root says which task has the value, or gets it; default 0.
func Root(rank int) Option { return Option{kind: rootOption, rank: rank} }

// Mode says how an operation is protected against deaths.
func Mode(p Protection) Option { return Option{kind: modeOption, mode: p} }

// Shared lends memory instead of copying it: what the task passes must not
// change until the operation is over at every task, and what it gets may be read
// by the library as long. With Recovery Replay that is until the task's next Save has
// returned; what is lent before the first Save stays lent as long as the job runs.
func Shared() Option { return Option{kind: sharedOption} }

// Into receives into dst, as far as it has room: no memory is allocated. The
// result is dst, cut to what came, or new memory if that does not fit in. Where
// the result has a value for each task and these are slices, dst[r] is reused for
// what task r sent. With Shared the library receives straight into it, and may
// still write there if the operation fails; such memory is lent like what is passed:
// with Recovery Replay it must not be used again before the next Save has returned.
func Into[T any](dst []T) Option { return Option{kind: intoOption, slice: dst} }

// Commutative says that the function of a reduction gives the same in any order:
// values may be combined as they come.
func Commutative() Option { return Option{kind: commutativeOption} }

// Backups says whether what ReduceFunc, AllReduceFunc, ScanFunc or ExScanFunc has combined so far at a task is
// kept at another process, that of the task whose value was combined last. If the task
// is run again, it is not combined again. That changes no result. Without this option it is
// kept when to combine it again would take ten times as long as to send it. Backups(true) also
// says that the function takes long: values are combined along a tree, by many tasks at once. It
// is the same at all tasks. Backups are there with Recovery Replay only; they take up to
// half of Job.LogBytes and go with the next Save.
func Backups(on bool) Option { return Option{kind: backupsOption, on: on} }

// Protection is how an operation is protected against deaths.
type Protection struct {
	tree, correction string
	order            topology.Order
	plan             node.Plan
	auto             bool // which tree is best depends on the size
	unlogged         bool // what is sent is not kept for replay
	agreed           bool // all tasks complete the operation, or none
	err              error
}

// Replayed is the default: what is sent is kept, so that a task whose process died
// can be run again and gets what it got before. With Recovery Report nothing is kept,
// and it is Plain.
// Small values go along a binomial tree, large ones in pieces.
var Replayed = protection(Protection{tree: "binomial", correction: "none", auto: true})

// Plain does nothing against deaths: a task that needs a dead one gets an error
// that names it, and a task that is run again and comes to the operation, too. It is
// what MPI does, without the hang.
var Plain = protection(Protection{tree: "binomial", correction: "none", auto: true, unlogged: true})

// Agreed: all tasks complete the operation or none, and all know which. A task whose
// context has ended when it comes to the operation aborts it, and it is ErrAborted for
// all; once it has begun, the end of a context no longer ends it. With Recovery
// Replay nothing else keeps it from being completed. With Report the tasks that live
// agree afterwards whether all of them have: if not, it is ErrLost for all. A task that
// has waited for the others for Job.Silence after the end of its context gives up the
// group: that is ErrAbandoned, and nobody can use the group any more.
var Agreed = protection(Protection{tree: "binomial", correction: "none", auto: true, agreed: true})

// Corrected is for Broadcast and for reductions. A broadcast's value reaches all tasks
// that live, whoever else dies, without a detector. The correction is one of
//
//	checked          any deaths before the broadcast, or of tasks that do not correct
//	opportunistic:D  gaps of up to D dead tasks in a row on each side
//	optimized:D      the same with fewer messages
//	delayed:US       checked, and correctors wait so many microseconds first
//	failure-proof:F  all live tasks or none, for up to F deaths at any moment
//
// docs/broadcasts.md has their costs and promises. If the root dies before
// anybody who lives has the value, it is ErrUnreached.
//
// Reduce, AllReduce, ReduceFunc and AllReduceFunc, with Recovery Report, go on without
// the inputs of the dead: failure-proof:F for up to F deaths, before them or at any
// moment, checked for one. The inputs of all tasks that live are in the result, those of
// the dead may be; at all tasks that get one it is the same. If more have died or the
// root has (AllReduce has one here, too: see Root), it may be ErrUnreached. With Recovery
// Replay all inputs come, in the end, and a death changes nothing. docs/collectives.md
// has the costs.
func Corrected(correction string) Protection {
	p := Protection{tree: "binomial", correction: correction}
	name, _, _ := strings.Cut(correction, ":")
	if !slices.Contains(corrections, name) {
		p.err = fmt.Errorf("correction %q; allowed: checked, opportunistic:D, optimized:D, delayed:US, failure-proof:F", correction)
	}
	return protection(p)
}

// corrections are those to choose from.
var corrections = []string{"checked", "opportunistic", "optimized", "delayed", "failure-proof"}

// Along is the same protection along another tree: binomial, kary:K, lame:K,
// optimal, or gossip:R for R rounds of gossip, whose partners are the same in
// every broadcast.
func (p Protection) Along(tree string) Protection {
	p.tree, p.auto = tree, false
	return protection(p)
}

// InOrder is the same with a tree numbered depth first. It is what other
// libraries use; a death then leaves larger gaps.
func (p Protection) InOrder() Protection {
	p.order, p.auto = topology.InOrder, false
	return protection(p)
}

// protection makes the plan, unless something was wrong already.
func protection(p Protection) Protection {
	if p.err == nil {
		p.plan, p.err = node.BroadcastPlan(p.tree, p.correction, p.order)
	}
	return p
}

// options are their names, and the operations that they are for.
var options = [...]struct{ name, with string }{
	rootOption:        {"Root", "Broadcast, Scatter, Gather, reductions"},
	modeOption:        {"Mode", "all but Save, Once"},
	sharedOption:      {"Shared", "all but Barrier, Save, Once"},
	intoOption:        {"Into", "all but Barrier, Save, Once"},
	commutativeOption: {"Commutative", "reductions, scans"},
	lostOption:        {"WithoutLost", "all but Save, Once"},
	storedOption:      {"Stored", "Save, Once"},
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
	barrierTakes  optionSet = 1<<modeOption | 1<<lostOption
	valueTakes              = barrierTakes | 1<<sharedOption | 1<<intoOption
	rootedTakes             = valueTakes | 1<<rootOption
	scanTakes               = valueTakes | 1<<commutativeOption
	reduceTakes             = scanTakes | 1<<rootOption // an AllReduce that is corrected has a root
	functionTakes           = optionSet(1 << backupsOption)
)

// takes is the options of an operation, without those that only functions have.
func takes(op collective.Op) optionSet {
	switch op {
	case collective.Broadcast, collective.Scatter, collective.Gather:
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
	given  optionSet
	root   int
	mode   Protection
	shared bool
	into   any

	commutes bool
	backup   node.Backup
}

func (s *settings) read(opts []Option) {
	s.mode = Replayed
	for i := range opts {
		o := &opts[i]
		s.given |= 1 << o.kind
		switch o.kind {
		case rootOption:
			s.root = o.rank
		case modeOption:
			s.mode = o.mode
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

// check tells what is wrong with the settings of an operation among n tasks that takes some options.
func (s *settings) check(op collective.Op, takes optionSet, n int) error {
	wrong := s.given &^ takes
	switch {
	case wrong != 0:
		return optionKind(bits.TrailingZeros16(uint16(wrong))).misplaced()
	case s.mode.err != nil:
		return s.mode.err
	case s.corrects(op):
		if s.mode.tree != "binomial" || s.mode.order == topology.InOrder {
			return errors.New("a tree for a corrected reduction; allowed with: broadcasts")
		}
		if _, err := s.mode.failures(); err != nil {
			return err
		}
	case op != collective.Broadcast && !s.mode.auto:
		return errors.New("this mode is for broadcasts and reductions; allowed: Replayed, Plain, Agreed")
	}
	return s.checkRoot(n)
}

// corrects tells whether a reduction is to be corrected.
func (s *settings) corrects(op collective.Op) bool {
	return s.mode.err == nil && s.mode.correction != "none" && (op == collective.Reduce || op == collective.AllReduce)
}

// failures is how many deaths a corrected reduction outlives.
func (p Protection) failures() (int, error) {
	name, digits, found := strings.Cut(p.correction, ":")
	if name == "checked" || name == "failure-proof" && !found {
		return 1, nil
	}
	f, err := strconv.Atoi(digits)
	if name != "failure-proof" || err != nil || f > collective.FailuresMax {
		return 0, fmt.Errorf("correction %q of a reduction; allowed: checked, failure-proof:F with F up to %d", p.correction, collective.FailuresMax)
	}
	return f, nil
}

// planned is a plan with what the settings say of it.
func (s *settings) planned(p node.Plan) node.Plan {
	if s.mode.unlogged {
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

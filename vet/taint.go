package vet

import (
	"strings"
)

// A taint is what a value depends on: kinds of sources, and, above inputShift, inputs of the function.
type taint struct {
	mask uint64
	why  [kindCount]string // for each kind, the first source that was found
}

// Kinds of sources.
const (
	clock   = iota // the time
	chance         // a random number that another attempt does not get
	order          // the order of a map, or in which goroutines got on
	race           // which case of a select came first
	outside        // files, environment, network
	machine        // how many processors there are
	attempt        // Task.Attempt, Task.View
	global         // a package variable that tasks change
	rank           // Task.Rank
	local          // a result that differs between tasks
	size           // the length of such a result
	element        // an element in a loop over a map: harmless, unless its order comes to matter
	kindCount
)

// inputShift is the bit of the first input.
const inputShift = 16

// unrepeatable are the kinds that differ between attempts of one task.
const unrepeatable = 1<<clock | 1<<chance | 1<<order | 1<<race | 1<<outside | 1<<machine | 1<<attempt | 1<<global

// uneven are the kinds that differ between tasks.
const uneven = 1<<rank | 1<<local | 1<<size

const allKinds = 1<<kindCount - 1

// nouns say what a value of a kind depends on, and remedies what to do.
var nouns = [kindCount]string{
	"the clock", "random numbers that another attempt does not get", "the order of a map or of goroutines", "which case of a select came first",
	"what is outside the job", "the number of processors", "the attempt or the view", "a package variable that tasks change",
	"the rank", "a result that differs between tasks", "the length of a result that differs between tasks", "",
}

var remedies = [kindCount]string{
	"get it by coppice.Once", "use Task.Rand, or a generator with a fixed seed", "sort first, or keep results by index", "wait in a fixed order, or decide inside coppice.Once",
	"read it inside coppice.Once", "pass it as a setting", "let operations not depend on it", "keep it in a local variable, and what changes in the state of Save",
	"", "", "", "",
}

func source(kind int, why string) (t taint) {
	t.mask = 1 << kind
	t.why[kind] = why
	return t
}

func (t taint) has(mask uint64) bool { return t.mask&mask != 0 }

// first returns the first kind of a mask that the taint has.
func (t taint) first(mask uint64) (kind int, ok bool) {
	for k := range kindCount {
		if t.mask&mask&(1<<k) != 0 {
			return k, true
		}
	}
	return 0, false
}

func (t taint) only(mask uint64) taint {
	t.mask &= mask
	return t
}

func (t taint) without(mask uint64) taint {
	t.mask &^= mask
	return t
}

// join adds another taint, and reports whether that changed anything.
func (t *taint) join(u taint) (changed bool) {
	added := u.mask &^ t.mask
	if added == 0 {
		return false
	}
	t.mask |= added
	for k := range kindCount {
		if added&(1<<k) != 0 {
			t.why[k] = u.why[k]
		}
	}
	return true
}

func joined(taints ...taint) (all taint) {
	for _, t := range taints {
		all.join(t)
	}
	return all
}

// say names a kind with its source: "the clock (time.Now, line 12)".
func (t taint) say(kind int) string {
	var b strings.Builder
	b.WriteString(nouns[kind])
	if t.why[kind] != "" {
		b.WriteString(" (" + t.why[kind] + ")")
	}
	return b.String()
}

package protocol

// Note takes down a call that may change a machine: the name of the method, its arguments, and what it returned as far as
// that is to be compared. It is called before the caller of the method learns what it returned. All calls of a machine,
// in order, say all that it has done: making them again gives the same results (package chaos/oracle does that). nil: no
// notes are wanted.
//
// A tape is a machine whose calls are noted. Its methods go through the functions below: DoN calls a method with N
// arguments that returns nothing, GetN one that returns something, BothN one that returns two things.
type Note func(call string, values ...any)

// Place is a task's place in a group, whose epoch is part of its name: it says whose machine it is.
type Place struct {
	Group, Epoch uint64
	Task         Rank
}

// Of returns the place of another task in the group.
func (p Place) Of(task Rank) Place { return Place{p.Group, p.Epoch, task} }

func Do0(note Note, call string, f func()) {
	if f(); note != nil {
		note(call)
	}
}

func Do1[A any](note Note, call string, f func(A), a A) {
	if f(a); note != nil {
		note(call, a)
	}
}

func Do2[A, B any](note Note, call string, f func(A, B), a A, b B) {
	if f(a, b); note != nil {
		note(call, a, b)
	}
}

func Do3[A, B, C any](note Note, call string, f func(A, B, C), a A, b B, c C) {
	if f(a, b, c); note != nil {
		note(call, a, b, c)
	}
}

func Get0[R any](note Note, call string, f func() R) R {
	r := f()
	if note != nil {
		note(call, r)
	}
	return r
}

func Get1[A, R any](note Note, call string, f func(A) R, a A) R {
	r := f(a)
	if note != nil {
		note(call, a, r)
	}
	return r
}

func Get2[A, B, R any](note Note, call string, f func(A, B) R, a A, b B) R {
	r := f(a, b)
	if note != nil {
		note(call, a, b, r)
	}
	return r
}

func Get3[A, B, C, R any](note Note, call string, f func(A, B, C) R, a A, b B, c C) R {
	r := f(a, b, c)
	if note != nil {
		note(call, a, b, c, r)
	}
	return r
}

func Both1[A, R, S any](note Note, call string, f func(A) (R, S), a A) (R, S) {
	r, s := f(a)
	if note != nil {
		note(call, a, r, s)
	}
	return r, s
}

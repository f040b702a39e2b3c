// Package oracle checks what the machines of a real job have done. A job that is started with
// `coppice run --trace FILE` records every call of the machines of membership, recovery, agreements, streams
// and credit, of all its processes (membership.Line). Check repeats the calls and finds the first one whose
// result differs from the record, or that breaks one of the rules that the packages of these machines ask
// their callers to keep. Its API may change.
//
// This also checks what the runtime does between the machines: that what one process tells another arrives
// there, unchanged and in order.
//
// A machine is checked by a type that embeds it. Check calls the methods of that type: those that it adds
// check a call before they pass it on, and record what others may expect after it.
package oracle

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Report says how much was checked.
type Report struct {
	Processes   int `json:"processes"` // lives of processes
	Steps       int `json:"steps"`     // calls of machines
	Effects     int `json:"effects"`
	Letters     int `json:"letters"`  // of the membership, from one process to another
	Messages    int `json:"messages"` // of recovery, from one process to another
	Views       int `json:"views"`
	Epochs      int `json:"epochs"`      // epochs committed
	Adoptions   int `json:"adoptions"`   // tasks run again
	Resumptions int `json:"resumptions"` // adoptions that went on from a saved state
	Decisions   int `json:"decisions"`   // of agreements, returned by a task
	Arrivals    int `json:"arrivals"`    // messages of streams received
	Credits     int `json:"credits"`     // reports of how far another task is, in operations or in a stream
	Cut         int `json:"cut"`         // incomplete lines: their processes were killed
}

// line is a call as it is read.
type line = membership.Line[json.RawMessage]

// Check checks the trace of one job, in the order in which it was written. The error says what is wrong
// first, and where.
func Check(r io.Reader) (Report, error) {
	c := checker{
		lives: map[membership.Member]*life{}, machines: map[key]any{}, named: map[uint64]membership.Member{},
		recovered: recovered{map[uint64]*membership.View{}, map[uint64]int64{}, map[protocol.Rank]uint64{}, map[protocol.Rank]bool{}, map[attempt]membership.Member{}},
		tasks:     tasks{map[count]uint64{}, map[letter]bool{}, map[letter][]decision{}},
	}
	in := bufio.NewReader(r)
	for number := 1; ; number++ {
		text, err := in.ReadBytes('\n')
		if text := bytes.TrimSpace(text); len(text) > 0 {
			var l line
			if json.Unmarshal(text, &l) != nil {
				c.Cut++
			} else if err := c.check(&l); err != nil {
				return c.Report, fmt.Errorf("line %d: process %v: %w", number, l.Who, err)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return c.Report, err
		}
	}
	switch {
	case c.Steps == 0:
		return c.Report, errors.New("there is no step; allowed: a file that coppice run --trace wrote")
	case c.Cut > c.Processes:
		return c.Report, fmt.Errorf("%d lines are cut off, more than there were processes", c.Cut)
	}
	return c.Report, nil
}

type checker struct {
	Report
	wrong    error // the first
	lives    map[membership.Member]*life
	machines map[key]any
	named    map[uint64]membership.Member // by view: the process that the arbiter named
	recovered
	tasks
}

// key names a machine.
type key struct {
	who    membership.Member
	number uint64
}

// life is one life of a process. Its methods begin machines and are named after their kinds.
type life struct {
	c       *checker
	who     membership.Member
	members *members // nil: not begun
	rules   *rules   // nil: not begun
}

// fail records what is wrong, unless an error is already recorded.
func (c *checker) fail(format string, values ...any) {
	if c.wrong == nil {
		c.wrong = fmt.Errorf(format, values...)
	}
}

// check repeats a call.
func (c *checker) check(l *line) error {
	c.Steps++
	q := c.lives[l.Who]
	if q == nil {
		q = &life{c: c, who: l.Who}
		c.lives[l.Who] = q
		c.Processes++
	}
	k := key{l.Who, l.Machine}
	of, begun := c.machines[k]
	if !begun {
		of = q
	}
	came := c.call(of, l)
	if c.wrong != nil {
		return fmt.Errorf("%s.%s: %w", reflect.TypeOf(of).Elem().Name(), l.Call, c.wrong)
	}
	if !begun {
		c.machines[k] = came[0].Interface()
	}
	return nil
}

// call calls the method that a line names, and compares what it returns.
func (c *checker) call(of any, l *line) (came []reflect.Value) {
	defer func() {
		if why := recover(); why != nil {
			c.fail("the machine does not survive it: %v", why)
		}
	}()
	f := reflect.ValueOf(of).MethodByName(l.Call)
	if !f.IsValid() || len(l.Values) < f.Type().NumIn() || len(l.Values) > f.Type().NumIn()+f.Type().NumOut() {
		c.fail("there is no such call with %d values, or what it is of has not begun", len(l.Values))
		return nil
	}
	if b, ok := of.(interface{ before(call string) }); ok {
		b.before(l.Call)
	}
	var in []reflect.Value
	for i, text := range l.Values[:f.Type().NumIn()] {
		v := reflect.New(f.Type().In(i))
		if err := json.Unmarshal(text, v.Interface()); err != nil {
			c.fail("%s: %w", text, err)
			return nil
		}
		in = append(in, v.Elem())
	}
	do := f.Call
	if f.Type().IsVariadic() {
		do = f.CallSlice
	}
	came = do(in)
	if a, ok := of.(interface{ after() }); ok {
		a.after()
	}
	for i, text := range l.Values[len(in):] {
		if again, err := json.Marshal(came[i].Interface()); err != nil || !bytes.Equal(text, again) {
			c.fail("what came of it was %s; the machine says %s", text, again)
		}
	}
	return came
}

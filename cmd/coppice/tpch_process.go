package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/apps/tpch"
)

// tpchProcessCmd is what `coppice tpch` starts: one process of the job.
type tpchProcessCmd struct {
	tpchCmd
	Mark  string        // of the files
	Steps bool          // tasks tell what they do next,
	Pace  time.Duration // and wait so long
}

// tpchLine is what a task tells: what it does next, or, at last, the answer.
type tpchLine struct {
	Task    int          `json:"task"`
	Attempt int          `json:"attempt,omitempty"`
	Step    string       `json:"step,omitempty"`
	Wrong   string       `json:"wrong,omitempty"` // with the input
	Answer  *tpch.Answer `json:"answer,omitempty"`
	Load    float64      `json:"load,omitempty"` // seconds
	Ask     float64      `json:"ask,omitempty"`
}

func (c *tpchProcessCmd) Run(con *console) error {
	q, err := c.question()
	if err != nil {
		return badInput{err}
	}
	p := tpchProcess{tpchProcessCmd: c, query: q, out: json.NewEncoder(con.stdout)}
	var end func() error
	if p.source, end, p.wrong = c.source(q); p.wrong == nil {
		defer end()
	}
	job := coppice.Job{Recovery: tpchModes[c.Mode].recovery}
	return job.Run(context.Background(), func(ctx context.Context, t *coppice.Task) error { return returned(p.task(ctx, t)) })
}

// tpchModes are the ways to protect a query, by name.
var tpchModes = map[string]struct {
	recovery coppice.Recovery
	option   coppice.Option // of all operations
}{
	replayMode: {coppice.Replay, coppice.Mode(coppice.Replayed)},
	agreedMode: {coppice.Replay, coppice.Mode(coppice.Agreed)},
	plainMode:  {coppice.Report, coppice.Mode(coppice.Plain)},
}

// tpchProcess is one of the processes.
type tpchProcess struct {
	*tpchProcessCmd
	query  tpch.Query
	source tpch.Source
	wrong  error // with it: the tasks fail, for if the process ended by itself, others would do its work

	mu  sync.Mutex
	out *json.Encoder
}

func (p *tpchProcess) tell(l tpchLine) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Encode(l)
}

// task is the program.
func (p *tpchProcess) task(ctx context.Context, t *coppice.Task) error {
	var broken error
	next := func(step string) {
		if p.Steps && broken == nil {
			broken = p.tell(tpchLine{Task: t.Rank(), Attempt: t.Attempt(), Step: step})
		}
		select {
		case <-time.After(p.Pace):
		case <-ctx.Done():
		}
	}
	if p.wrong != nil {
		return p.refused(p.wrong)
	}
	next("tables")
	began := time.Now()
	tables, err := p.source.Load(ctx, t.Rank(), t.Size(), p.query.Columns())
	if err != nil && ctx.Err() == nil {
		return p.refused(err)
	} else if err != nil {
		return err
	}
	option := tpchModes[p.Mode].option
	if err := p.source.Check(ctx, t, tables, option); errors.As(err, new(tpch.WrongError)) {
		return p.refused(err)
	} else if err != nil {
		return err
	}
	if err := coppice.Barrier(ctx, t, option); err != nil {
		return err
	}
	loaded := time.Now()
	answer, err := p.query.Ask(ctx, t, tables, p.source.Bounds(), next, option)
	if err != nil {
		return err
	}
	asked := time.Now()
	next("done")
	if broken != nil || t.Rank() != 0 {
		return broken
	}
	return p.tell(tpchLine{Answer: &answer, Load: loaded.Sub(began).Seconds(), Ask: asked.Sub(loaded).Seconds()})
}

// source is where tables come from, and what to do with it at the end.
func (c *tpchProcessCmd) source(q tpch.Query) (s tpch.Source, end func() error, err error) {
	if c.Input == "" {
		return tpch.Generated(c.scale()), func() error { return nil }, nil
	}
	files, err := c.openInput(q)
	if err != nil {
		return nil, nil, err
	}
	if files.Mark != c.Mark {
		return nil, nil, errors.Join(fmt.Errorf("files of %s have changed since the job began", c.Input), files.Close())
	}
	return files, files.Close, nil
}

// refused tells what is wrong with the input, and returns it.
func (p *tpchProcess) refused(wrong error) error {
	if err := p.tell(tpchLine{Wrong: wrong.Error()}); err != nil {
		return err
	}
	return wrong
}

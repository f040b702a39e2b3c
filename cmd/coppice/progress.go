package main

import (
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progress is a bar on standard error with the time that is left. It appears
// on terminals only, and only if the work takes longer than patience.
type progress struct {
	runs  atomic.Int64 // done so far
	end   chan struct{}
	ended chan struct{}
}

const patience = time.Second

func (c *console) newProgress(total int) *progress {
	p := &progress{end: make(chan struct{}), ended: make(chan struct{})}
	if !c.bars || total < 2 {
		close(p.ended)
		return p
	}
	began := time.Now()
	go func() {
		defer close(p.ended)
		select {
		case <-p.end:
		case <-time.After(patience):
			p.draw(c, began, int64(total))
		}
	}()
	return p
}

// draw shows the bar until the end.
func (p *progress) draw(c *console, began time.Time, total int64) {
	bars := mpb.New(mpb.WithOutput(c.stderr), mpb.WithWidth(40))
	bar := bars.AddBar(total,
		mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.CountersNoUnit("%d of %d runs ")),
		mpb.AppendDecorators(decor.Percentage(), decor.Name(", left: "),
			decor.NewAverageETA(decor.ET_STYLE_GO, began, nil)),
	)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			bar.SetCurrent(p.runs.Load())
		case <-p.end:
			bar.Abort(true)
			bars.Wait()
			return
		}
	}
}

// done says how many runs are done, from any goroutine.
func (p *progress) done(runs int) { p.runs.Store(int64(runs)) }

// stop takes the bar away.
func (p *progress) stop() {
	close(p.end)
	<-p.ended
}

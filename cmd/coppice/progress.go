package main

import (
	"fmt"
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

// newProgress shows how many of so many runs are done.
func (c *console) newProgress(total int) *progress {
	p := &progress{}
	began := time.Now()
	return p.start(c, total > 1, func() (string, float64) {
		done := p.runs.Load()
		line := fmt.Sprintf("%d of %d runs", done, total)
		share := float64(done) / float64(total)
		if done > 0 {
			line += ", left: " + time.Duration(float64(time.Since(began))*(1-share)/share).Round(time.Second).String()
		}
		return line, share
	})
}

// newMeter shows what text says: a line, and the share of the work that is
// done.
func (c *console) newMeter(text func() (string, float64)) *progress {
	return new(progress).start(c, true, text)
}

func (p *progress) start(c *console, worthwhile bool, text func() (string, float64)) *progress {
	p.end, p.ended = make(chan struct{}), make(chan struct{})
	if !c.bars || !worthwhile {
		close(p.ended)
		return p
	}
	go func() {
		defer close(p.ended)
		select {
		case <-p.end:
		case <-time.After(patience):
			p.draw(c, text)
		}
	}()
	return p
}

// draw shows the bar until the end.
func (p *progress) draw(c *console, text func() (string, float64)) {
	const full = 1000
	bars := mpb.New(mpb.WithOutput(c.stderr), mpb.WithWidth(30))
	bar := bars.AddBar(full,
		mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Any(func(decor.Statistics) string {
			line, _ := text()
			return line + " "
		})),
		mpb.AppendDecorators(decor.Percentage()),
	)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_, share := text()
			bar.SetCurrent(min(int64(share*full), full-1))
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

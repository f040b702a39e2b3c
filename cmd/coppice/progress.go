package main

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progress shows on standard error how far the work is, with the time that is left: a bar on a terminal, if the
// work takes longer than patience; elsewhere, for work that may take hours, a plain line every plainInterval.
type progress struct {
	runs  atomic.Int64 // done so far
	end   chan struct{}
	ended chan struct{}
}

const (
	patience      = time.Second
	plainInterval = time.Minute
)

// newProgress shows how many of so many runs are done.
func (c *console) newProgress(total int) *progress {
	p := &progress{}
	if total < 2 {
		return p.start(func() {})
	}
	return p.bar(c, p.count("runs", total))
}

// timed does some work, shows how many of its runs are done, as it tells, and returns how many seconds it took.
func (c *console) timed(runs int, work func(done func(runs int)) error) (seconds float64, err error) {
	began := time.Now()
	shown := c.newProgress(runs)
	err = work(shown.done)
	shown.stop()
	return time.Since(began).Seconds(), err
}

// newSchedules shows how many of so many schedules of one of several protocols are done, on no terminal in plain lines.
func (c *console) newSchedules(protocol string, i, protocols, total int) *progress {
	p := &progress{}
	count := p.count("schedules", total)
	text := func() (string, float64) {
		line, share := count()
		line = protocol + ": " + line
		if protocols > 1 {
			line = fmt.Sprintf("%d of %d, %s", i+1, protocols, line)
		}
		return line, share
	}
	if c.bars {
		return p.bar(c, text)
	}
	return p.lines(c, plainInterval, text)
}

// count says how many of so many are done, and how long the others may take.
func (p *progress) count(what string, total int) func() (line string, share float64) {
	began := time.Now()
	return func() (string, float64) {
		done := p.runs.Load()
		line := fmt.Sprintf("%d of %d %s", done, total, what)
		share := float64(done) / float64(total)
		if done > 0 {
			line += ", " + timeLeft(began, share)
		}
		return line, share
	}
}

// timeLeft says how long work may still take of which a share is done.
func timeLeft(began time.Time, share float64) string {
	return "left: " + time.Duration(float64(time.Since(began))*(1-share)/share).Round(time.Second).String()
}

// start shows something until stop is called.
func (p *progress) start(show func()) *progress {
	p.end, p.ended = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(p.ended)
		show()
	}()
	return p
}

// lines prints what text says, again and again.
func (p *progress) lines(c *console, interval time.Duration, text func() (string, float64)) *progress {
	return p.start(func() {
		p.each(interval, func() {
			line, _ := text()
			fmt.Fprintln(c.stderr, "coppice:", line)
		})
	})
}

// each does something at intervals until the end.
func (p *progress) each(interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			do()
		case <-p.end:
			return
		}
	}
}

// bar shows what text says, a line and the share of the work that is done, as a bar, on a terminal, if the work takes long.
func (p *progress) bar(c *console, text func() (string, float64)) *progress {
	return p.start(func() {
		select {
		case <-p.end:
		case <-time.After(patience):
			if c.bars {
				p.draw(c, text)
			}
		}
	})
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
	p.each(100*time.Millisecond, func() {
		_, share := text()
		bar.SetCurrent(min(int64(share*full), full-1))
	})
	bar.Abort(true)
	bars.Wait()
}

// done says how many runs are done, from any goroutine.
func (p *progress) done(runs int) { p.runs.Store(int64(runs)) }

// stop takes the bar away.
func (p *progress) stop() {
	close(p.end)
	<-p.ended
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/model"
)

// probeProcessCmd is what `coppice probe` starts: one process of the job in which
// rank 0 measures. The others answer it, one after the other, and wait asleep for
// their turn.
type probeProcessCmd struct {
	Pairs  int `required:""`
	Rounds int `required:""`
}

// probeRepeats is how often every pair is measured. All pairs take turns, so that
// a moment in which the machine is busy does not make one of them look slow.
const probeRepeats = 9

// What is measured. A process may run ahead of another by 256 messages: a longer
// burst contains what it costs to be held back. Messages above 64 KiB are asked for
// by their receiver: the longest are so long that this hardly counts.
var (
	probeSizes  = []int{8, 512, 4 << 10, 32 << 10, 128 << 10, 512 << 10, 1 << 20} // bytes of a round trip
	probeBursts = []int{16, 32, 64, 128, 256, 512}                                // messages
)

// pairSamples is what rank 0 measured with another, in microseconds.
type pairSamples struct {
	Rank    int
	Repeats []model.Probe
}

func (p *probeProcessCmd) Run(c *console) error {
	coppice.Main(func(ctx context.Context, t *coppice.Task) error {
		if p.Pairs < 1 || t.Size() <= p.Pairs || p.Rounds < 1 {
			return errors.New("not enough processes; allowed: as coppice probe starts them")
		}
		pairs, err := p.measure(ctx, t)
		if err != nil || t.Rank() != 0 {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(pairs)
	})
	return nil
}

// measure measures all pairs, of which this process is in one, or none.
func (p *probeProcessCmd) measure(ctx context.Context, t *coppice.Task) ([]pairSamples, error) {
	pairs := each(partners(t.Size(), p.Pairs), func(rank int) pairSamples { return pairSamples{Rank: rank} })
	for repeat := -1; repeat < probeRepeats; repeat++ { // the first connects, and is not counted
		for i := range pairs {
			if t.Rank() != 0 && t.Rank() != pairs[i].Rank {
				continue
			}
			l := &loop{ctx: ctx, t: t, other: pairs[i].Rank - t.Rank(), rounds: p.Rounds}
			sample := l.sample()
			if l.err != nil {
				return nil, l.err
			}
			if repeat >= 0 {
				pairs[i].Repeats = append(pairs[i].Repeats, sample)
			}
		}
	}
	return pairs, nil
}

// partners are those that rank 0 measures with: evenly spread over the others.
func partners(size, pairs int) (ranks []int) {
	for i := range pairs {
		ranks = append(ranks, 1+i*(size-1)/pairs)
	}
	return ranks
}

// loop is one end of a pair. Its first error stays, and ends it.
type loop struct {
	ctx    context.Context
	t      *coppice.Task
	other  int
	rounds int
	err    error
}

// sample measures everything once.
func (l *loop) sample() (s model.Probe) {
	for _, size := range probeSizes {
		data := make([]byte, size)
		// As long as a message is short, its length hardly counts.
		_, time := l.repeat(l.rounds*4096/max(size, 4096), func() { l.there(data) }, func() { l.back(data) })
		s.RoundTrips = append(s.RoundTrips, model.RoundTrip{Bytes: size, Time: time})
	}
	data := make([]byte, probeSizes[0])
	for _, messages := range probeBursts {
		burst := func() {
			for range messages {
				l.there(data)
			}
		}
		sent, answered := l.repeat(l.rounds*probeBursts[0]/messages, burst, func() { l.back(data) })
		s.Bursts = append(s.Bursts, model.Burst{Messages: messages, Sent: sent, Answered: answered})
	}
	return s
}

// roundsMin is how many rounds there are of what takes long, unless less is asked
// for.
const roundsMin = 5

// repeat does first and then, over and over, and returns the median times from
// the beginning to the end of each.
func (l *loop) repeat(rounds int, first, then func()) (untilFirst, untilThen float64) {
	var firsts, thens []float64
	for range max(rounds, min(l.rounds, roundsMin)) {
		if l.err != nil {
			return 0, 0
		}
		began := time.Now()
		first()
		firsts = append(firsts, microseconds(time.Since(began)))
		then()
		thens = append(thens, microseconds(time.Since(began)))
	}
	return model.Median(firsts), model.Median(thens)
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// there is a message from rank 0 to the other, at either end.
func (l *loop) there(data []byte) { l.move(data, l.t.Rank() == 0) }

// back is one from the other to rank 0.
func (l *loop) back(data []byte) { l.move(data, l.t.Rank() != 0) }

func (l *loop) move(data []byte, send bool) {
	switch {
	case l.err != nil:
	case send:
		l.err = coppice.Send(l.ctx, l.t, l.other, 0, data)
	default:
		var got []byte
		got, l.err = coppice.Recv[[]byte](l.ctx, l.t, l.other, 0)
		if l.err == nil && len(got) != len(data) {
			l.err = errors.New("a message of another length than was sent")
		}
	}
}

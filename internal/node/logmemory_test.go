package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/protocol/collective"
	"github.com/coppice-go/coppice/protocol/recovery"
)

func TestLogMemoryIsCutOnce(t *testing.T) {
	var l logMemory
	type cut struct {
		b    []byte
		mark byte
	}
	var cuts []cut
	sizes := []int{1, 64, 65, 3000, 64 << 10, pieceFirst, logCutMax, logCutMax + 1, pieceSize + 5}
	for i := range 200 {
		n := sizes[i*i%len(sizes)]
		b := l.take(n)
		if len(b) != n || cap(b) != n {
			t.Fatalf("%d bytes with room for %d, want %d", len(b), cap(b), n)
		}
		c := cut{b, byte(i)}
		for k := range b {
			b[k] = c.mark
		}
		cuts = append(cuts, c)
	}
	for i, c := range cuts {
		if k := slices.IndexFunc(c.b, func(x byte) bool { return x != c.mark }); k >= 0 {
			t.Fatalf("cut %d of %d bytes: byte %d is another's", i, len(c.b), k)
		}
	}
}

func TestLittleLogTakesLittleMemory(t *testing.T) {
	var l logMemory
	l.take(1000)
	if len(l.rest) > pieceFirst {
		t.Errorf("%d bytes are left of a piece", len(l.rest))
	}
}

// The log holds what the receivers took, though many other operations reused the memory of the logged
// ones.
func TestLogIsWhatOthersTook(t *testing.T) {
	rng := dice(t)
	sizes := []int{8, 3001, 16 << 10, eagerMax, eagerMax + 8, copiedMax + 8, short(1<<20, copiedMax+64)}
	for _, kind := range []string{memory, transport.Unix} {
		for _, p := range []int{2, 4, 5} {
			t.Run(fmt.Sprintf("%s,%d", kind, p), func(t *testing.T) {
				n, owner := p, []int32(nil)
				if p == 5 { // tasks that share a process
					n, owner = 3, []int32{0, 1, 1, 2, 0}
				}
				j := start(t, kind, n, func(c *Config) {
					c.Tasks, c.Owner, c.Hosts, c.Check, c.Buffer = p, owner, hostsOf(p), true, 1<<32
					c.Adopt = func(int, int, int) {}
				})
				all := matrixOf(p, rng, false) // each run draws others
				for i := range all {
					all[i].size = sizes[rng.IntN(len(sizes))]
				}
				logs(t, j, p, all)
				compareLogs(t, j)
			})
		}
	}
}

// logs runs operations, whose results the tasks copy at once, and broadcasts without a schedule.
func logs(t *testing.T, j *job, p int, all []trial) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(context.Background(), hangTime, errors.New("the test hangs"))
	defer cancel()
	wants := make([][][][]byte, len(all))
	for i, x := range all {
		wants[i] = x.want(p)
	}
	plans := []Plan{mustPlan(t, "binomial", "none"), mustPlan(t, "binomial", "checked")}
	err := each(j.ps, func(m *Member) error {
		for i, x := range all {
			x.copies = true
			if err := x.run(ctx, m, wants[i][m.Rank()]); err != nil {
				return err
			}
			if i%5 == 0 {
				if err := broadcasts1(ctx, m, plans[i/5%2], i%p, x.size, uint64(i)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// compareLogs compares the contents of the logs with the digests of the receivers.
func compareLogs(t *testing.T, j *job) {
	t.Helper()
	type sent struct {
		envelope
		value []byte
		from  int
	}
	var all []sent
	for _, p := range j.ps {
		p.engine.Lock()
		for _, m := range p.groups.members {
			for r := range m.Size() {
				if m.log == nil {
					continue
				}
				for head, value := range m.log.To(r) {
					all = append(all, sent{parseEnvelope(head), value, m.rank})
				}
			}
		}
		p.engine.Unlock()
	}
	compared, large := 0, 0
	for _, s := range all {
		if !s.plan.checked() {
			continue
		}
		q := j.ps[j.ps[0].roster.Owner(int(s.to))]
		q.engine.Lock()
		sum, known := q.groups.members[memberKey{s.scope, s.to}].digests.find(nameOf(s.from, &s.envelope))
		q.engine.Unlock()
		if !known {
			continue
		}
		compared++
		if len(s.value) > recovery.Inline {
			large++
		}
		if sumOf(&s.envelope, s.value) != sum {
			t.Errorf("%s of operation %d, task %d to %d, %d bytes: the log has something else than was sent", opName(s.plan.op), s.seq, s.from, s.to, len(s.value))
		}
	}
	if large < 50 {
		t.Errorf("%d messages in the logs, %d compared, %d of them large; want 50 large ones", len(all), compared, large)
	}
	t.Logf("%d messages in the logs, %d compared, %d of them large", len(all), compared, large)
}

// A value sent to several tasks counts once, whether it is a result or was put together.
func TestLogCountsWhatGoesToSeveralOnce(t *testing.T) {
	const p, size, times = 4, 64 << 10, 10
	for _, op := range []collective.Op{collective.AllReduce, collective.AllGather, collective.Broadcast} {
		t.Run(op.String(), func(t *testing.T) {
			x := trial{op: op, by: collective.Hub, size: size, spans: 1, seed: 1}
			if op == collective.Broadcast {
				x.by = collective.Flat
			}
			sent := size
			if op == collective.AllGather { // blocks differ in length
				sent = 0
				for r := range p {
					sent += 8 + len(x.input(r, 0))
				}
			}
			j := start(t, transport.Unix, p, func(c *Config) {
				c.Buffer = 1 << 32
				c.Adopt = func(int, int, int) {}
			})
			ctx, want := patience(t), x.want(p)
			before := Logged()
			err := each(j.ps, func(m *Member) error {
				for range times {
					if err := x.run(ctx, m, want[m.Rank()]); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			got, slack := j.ps[0].recovery.history.bytes, int64(32<<10)
			if least := int64(times * sent); got < least || got > least+slack {
				t.Errorf("the log of process 0 takes %d bytes, want %d to %d", got, least, least+slack)
			}
			if all := Logged() - before; all < got {
				t.Errorf("all processes logged %d bytes, one of them %d", all, got)
			}
		})
	}
}

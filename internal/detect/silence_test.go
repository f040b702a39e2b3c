package detect

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

const (
	ms          = time.Millisecond
	testSilence = 3 * time.Second
)

var start = time.Unix(1_000_000, 0)

func at(d time.Duration) time.Time { return start.Add(d) }

func mustSilence(t testing.TB, self, n int) *Silence {
	t.Helper()
	s, err := NewSilence(self, n, testSilence, start)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// follow calls Tick on time from one moment to another and hears the frames of
// process 1 meanwhile. It lists what was said, with the time.
func follow(s *Silence, from, to time.Duration, frames ...time.Duration) []string {
	var said []string
	for now := from; now < to; {
		if len(frames) > 0 && frames[0] <= now {
			s.Heard(1, at(frames[0]))
			frames = frames[1:]
			continue
		}
		todo := s.Tick(at(now))
		for _, w := range todo.Warnings {
			said = append(said, fmt.Sprintf("%v warning: %s", now, w.Why))
		}
		for _, w := range todo.Suspects {
			said = append(said, fmt.Sprintf("%v suspect: %s", now, w.Why))
		}
		now = todo.At.Sub(start)
	}
	return said
}

// every lists moments.
func every(step, to time.Duration) []time.Duration {
	var moments []time.Duration
	for m := step; m <= to; m += step {
		moments = append(moments, m)
	}
	return moments
}

func TestSilenceIsWarnedOfAndThenSuspected(t *testing.T) {
	for _, c := range []struct {
		name   string
		frames []time.Duration
		want   []string
	}{
		{"regular", every(375*ms, 20*time.Second), nil},
		{
			"stops", every(300*ms, 3*time.Second),
			[]string{
				"3.75s warning: task 1 has been silent for 0.75 s, usually 0.30 s",
				"6.0234375s suspect: task 1 has been silent for 3.02 s, usually 0.30 s, allowed 3.00 s",
			},
		},
		{
			"chatty, then stops", every(ms, 3*time.Second),
			[]string{
				"3.75s warning: task 1 has been silent for 0.75 s, usually 0.00 s",
				"6.0234375s suspect: task 1 has been silent for 3.02 s, usually 0.00 s, allowed 3.00 s",
			},
		},
		{
			"irregular, then stops",
			[]time.Duration{300 * ms, 600 * ms, 1600 * ms, 1900 * ms},
			[]string{
				"1.35s warning: task 1 has been silent for 0.75 s, usually 0.30 s",
				"3.4s warning: task 1 has been silent for 1.50 s, usually 0.38 s",
				"5.1734375s suspect: task 1 has been silent for 3.27 s, usually 0.38 s, allowed 3.25 s",
			},
		},
		{
			"more irregular, then stops",
			[]time.Duration{100 * ms, 2600 * ms},
			[]string{
				"850ms warning: task 1 has been silent for 0.75 s",
				"4.85s warning: task 1 has been silent for 2.25 s, usually 2.50 s",
				"5.9734375s suspect: task 1 has been silent for 3.37 s, usually 2.50 s, allowed 3.35 s",
			},
		},
		{
			"never heard", nil,
			[]string{
				"750ms warning: task 1 has been silent for 0.75 s, since it is watched",
				"3.0234375s suspect: task 1 has been silent for 3.02 s, since it is watched, allowed 3.00 s",
			},
		},
		{
			"heard again and silent again",
			[]time.Duration{5 * time.Second},
			[]string{
				"750ms warning: task 1 has been silent for 0.75 s, since it is watched",
				"3.0234375s suspect: task 1 has been silent for 3.02 s, since it is watched, allowed 3.00 s",
				"5.75s warning: task 1 has been silent for 0.75 s",
				"8.0234375s suspect: task 1 has been silent for 3.02 s, allowed 3.00 s",
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := follow(mustSilence(t, 0, 2), 0, 15*time.Second, c.frames...)
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestOldIrregularitiesAreForgotten(t *testing.T) {
	s := mustSilence(t, 0, 2)
	frames := append([]time.Duration{100 * ms, 1600 * ms}, every(375*ms, 65*time.Second)[5:]...)
	got := follow(s, 0, 70*time.Second, frames...)
	want := []string{
		"850ms warning: task 1 has been silent for 0.75 s",
		"1m5.625s warning: task 1 has been silent for 0.75 s, usually 0.38 s",
		"1m7.8984375s suspect: task 1 has been silent for 3.02 s, usually 0.38 s, allowed 3.00 s",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestAPauseOfTheWatcherIsNobodysSilence(t *testing.T) {
	s := mustSilence(t, 0, 2)
	follow(s, 0, 2*time.Second, 300*ms, 600*ms)
	// Paused until 62 s, noticed from 2.25 s on, when it was to beat.
	if got := follow(s, 62*time.Second, 63*time.Second); len(got) != 0 {
		t.Errorf("right after a pause it says %q", got)
	}
	// Of the 3 s since 0.6 s, 1.65 s had passed before.
	got := follow(s, 63*time.Second, 70*time.Second)
	want := []string{"1m3.3734375s suspect: task 1 has been silent for 3.02 s, usually 0.30 s, not counting 59.75 s in which this task was paused, allowed 3.00 s"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestAPauseThatAFrameRevealsIsTakenBackOnce(t *testing.T) {
	s := mustSilence(t, 0, 3)
	follow(s, 0, 2*time.Second, every(300*ms, 1900*ms)...)
	s.Heard(1, at(12*time.Second)) // Tick was due at 2.25 s
	s.Tick(at(12*time.Second + 20*ms))
	for _, w := range s.watches {
		switch heard := w.heard.Sub(start); w.rank {
		case 1:
			if heard != 12*time.Second || w.worst > 500*ms {
				t.Errorf("1 was heard at %v, its worst gap is %v", heard, w.worst)
			}
		case 2:
			if want := 9750 * ms; heard != want {
				t.Errorf("2 counts as heard at %v, want %v", heard, want)
			}
		}
	}
}

func TestAPauseBeforeTheSecondLookAsksForAnother(t *testing.T) {
	s := mustSilence(t, 0, 2)
	if got := follow(s, 0, 3*time.Second+10*ms); len(got) != 1 {
		t.Fatalf("before the second look it says %q", got)
	}
	todo := s.Tick(at(8 * time.Second))
	if len(todo.Suspects) > 0 {
		t.Errorf("right after a pause: %v", todo.Suspects)
	}
	if todo = s.Tick(todo.At); len(todo.Suspects) != 1 {
		t.Errorf("and a moment later: %v", todo.Suspects)
	}
}

func TestTheRingClosesWithAFreshAllowance(t *testing.T) {
	s := mustSilence(t, 0, 8) // 0 3 6 1 4 7 2 5
	ranks := func() (watched []int) {
		for _, w := range s.watches {
			watched = append(watched, w.rank)
		}
		return watched
	}
	if got := s.Tick(start); !slices.Equal(got.Beats, []int{3, 6}) || !slices.Equal(ranks(), []int{5, 2}) {
		t.Fatalf("beats to %v, watches %v", got.Beats, ranks())
	}
	for now := time.Duration(0); now < 2*time.Second; now += 25 * ms {
		s.Tick(at(now))
	}
	s.Gone(5, at(2*time.Second))
	s.Gone(6, at(2*time.Second))
	s.Gone(0, at(2*time.Second)) // nobody hears of its own death
	s.Gone(99, at(2*time.Second))
	if !slices.Equal(ranks(), []int{2, 7}) || !slices.Equal(s.followers, []int{3, 1}) {
		t.Fatalf("watches %v, beats to %v", ranks(), s.followers)
	}
	if old, fresh := s.watches[0].heard, s.watches[1].heard; !old.Equal(start) || !fresh.Equal(at(2*time.Second)) {
		t.Errorf("2 was last heard at %v, 7 at %v; want 0s and 2s", old.Sub(start), fresh.Sub(start))
	}
	s.Joined(5, at(2500*ms))
	if !slices.Equal(ranks(), []int{5, 2}) || !s.watches[0].heard.Equal(at(2500*ms)) {
		t.Errorf("with 5 back it watches %v, 5 since %v", ranks(), s.watches[0].heard.Sub(start))
	}
	for _, rank := range []int{1, 2, 3, 4, 5, 7} {
		s.Gone(rank, at(2600*ms))
	}
	if todo := s.Tick(at(3 * time.Second)); len(todo.Beats) != 0 || len(ranks()) != 0 {
		t.Errorf("alone, it beats to %v and watches %v", todo.Beats, ranks())
	}
}

func TestNewSilenceRefusesWhatItCannotBe(t *testing.T) {
	for _, c := range []struct {
		self, n int
		silence time.Duration
		want    string
	}{
		{0, 0, testSilence, "silence among 0 processes; allowed: 1 and more"},
		{4, 4, testSilence, "silence seen by process 4; allowed: 0 to 3"},
		{-1, 4, testSilence, "silence seen by process -1; allowed: 0 to 3"},
		{0, 4, 49 * ms, "silence of 49ms; allowed: 50ms and more"},
	} {
		if _, err := NewSilence(c.self, c.n, c.silence, start); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

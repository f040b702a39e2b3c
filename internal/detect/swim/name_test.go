package swim

import (
	"math"
	"testing"

	"github.com/coppice-go/coppice/internal/detect"
)

func TestNamesAreReadAsTheyAreWritten(t *testing.T) {
	for _, want := range []process{{0, 0}, {7, 1}, {rankMax - 1, math.MaxUint64}} {
		rank, incarnation, err := parseName(name(want.rank, want.incarnation))
		if got := (process{rank, incarnation}); err != nil || got != want {
			t.Errorf("%v: %v, %v", want, got, err)
		}
	}
	for _, text := range []string{"", "7", "7.", ".1", "-1.1", "+7.1", "07.1", "7.01", "7.-1", "7.1.1", "7.1 ", "seven.1", "1048576.1", "7.18446744073709551616"} {
		if rank, incarnation, err := parseName(text); err == nil {
			t.Errorf("%q: %d, %d, want an error", text, rank, incarnation)
		}
	}
}

func TestOnlyTheLastOfWhatHappenedIsTold(t *testing.T) {
	n := newNews(detect.Outside{Rank: 0, Incarnation: 1})
	for _, event := range []struct {
		member string
		is     state
	}{{"3.1", alive}, {"4.1", alive}, {"3.1", gone}, {"0.1", gone}, {"nobody", gone}, {"3.2", alive}} {
		n.note(event.member, event.is)
	}
	for _, want := range []struct {
		process
		is state
	}{{process{3, 1}, gone}, {process{4, 1}, alive}, {process{3, 2}, alive}} {
		if p, is, ok := n.next(); !ok || p != want.process || is != want.is {
			t.Errorf("%v %v, %v; want %v", p, is, ok, want)
		}
	}
	n.note("5.1", alive)
	n.stop()
	if p, _, ok := n.next(); ok {
		t.Errorf("told of %v after the end", p)
	}
}

// FuzzName checks that each process has exactly one name.
func FuzzName(f *testing.F) {
	for _, text := range []string{"0.1", "1048575.18446744073709551615", "01.1", "1.", "+1.1", ".", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rank, incarnation, err := parseName(text)
		if err == nil && (name(rank, incarnation) != text || rank < 0 || rank >= rankMax) {
			t.Errorf("%q is %d.%d", text, rank, incarnation)
		}
	})
}

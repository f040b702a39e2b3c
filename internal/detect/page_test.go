package detect

import (
	"os"
	"path/filepath"
	"testing"
)

func TestBeatsInThePageAreSeenByOthers(t *testing.T) {
	dir := t.TempDir()
	ours, err := OpenPage(dir, 3)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := OpenPage(dir, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	ours.Beat(2, 7)
	ours.Beat(2, 7)
	ours.Beat(3, 1) // there is no such slot
	if beats, pid := theirs.Beats(2, 7); beats != 2 || pid != os.Getpid() {
		t.Errorf("%d beats of process %d; want 2 of %d", beats, pid, os.Getpid())
	}
	for _, c := range [][2]int{{2, 6}, {1, 1}, {3, 1}, {-1, 1}} {
		if beats, pid := theirs.Beats(c[0], uint64(c[1])); beats != 0 || pid != 0 {
			t.Errorf("rank %d, incarnation %d: %d beats of process %d; want none", c[0], c[1], beats, pid)
		}
	}
	// The memory outlives its file.
	if err := os.Remove(filepath.Join(dir, pageName)); err != nil {
		t.Fatal(err)
	}
	ours.Beat(2, 7)
	if beats, _ := theirs.Beats(2, 7); beats != 3 {
		t.Errorf("%d beats after the file was removed; want 3", beats)
	}
	if err := ours.Close(); err != nil {
		t.Error(err)
	}
	if ours.Close() == nil {
		t.Error("a page can be closed twice")
	}
}

func TestAPageNeedsADirectory(t *testing.T) {
	if p, err := OpenPage(filepath.Join(t.TempDir(), "missing"), 1); err == nil {
		p.Close()
		t.Error("there is a page in a directory that does not exist")
	}
}

// A truncated file crashes no process: the next process that looks fills it for all.
func TestATruncatedPageIsFilledAgain(t *testing.T) {
	dir, slots := t.TempDir(), 2*os.Getpagesize()/slotLen
	ours, err := OpenPage(dir, slots)
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs, err := OpenPage(dir, slots)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int64{0, 1, int64(os.Getpagesize())} {
		ours.Beat(slots-1, 7)
		if err := os.Truncate(filepath.Join(dir, pageName), size); err != nil {
			t.Fatal(err)
		}
		if beats, pid := theirs.Beats(slots-1, 7); beats != 0 || pid != 0 {
			t.Errorf("truncated to %d: %d beats of process %d; want none", size, beats, pid)
		}
		ours.Beat(slots-1, 7)
		if beats, pid := theirs.Beats(slots-1, 7); beats != 1 || pid != os.Getpid() {
			t.Errorf("truncated to %d: %d beats of process %d; want 1", size, beats, pid)
		}
	}
	// A process that cannot fill the page does not count the silence of others against them.
	theirs.file.Close()
	if err := os.Truncate(filepath.Join(dir, pageName), 0); err != nil {
		t.Fatal(err)
	}
	first, _ := theirs.Beats(slots-1, 7)
	if again, _ := theirs.Beats(slots-1, 7); first == 0 || again == first {
		t.Errorf("%d beats, then %d; want two numbers", first, again)
	}
	theirs.Beat(slots-1, 7) // is lost
}

//go:build unix

package control_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

func newRecord(t testing.TB, dir string) *control.Record {
	t.Helper()
	r, err := control.OpenRecord(dir, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func TestRecordIsTheLastThatWasWritten(t *testing.T) {
	dir := t.TempDir()
	if got, err := control.ReadRecord(dir, 3, 1); got != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before it was opened: %q, %v", got, err)
	}
	r := newRecord(t, dir)
	if got, err := control.ReadRecord(dir, 3, 1); len(got) != 0 || err != nil {
		t.Errorf("before it was written: %q, %v", got, err)
	}
	for i, size := range []int{1, 0, 100, 5, 4 << 20, 16 << 20, 3, 4096} {
		want := bytes.Repeat([]byte{byte(i + 1)}, size)
		if err := r.Write(want); err != nil {
			t.Fatal(err)
		}
		if got, err := control.ReadRecord(dir, 3, 1); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("write %d: %d bytes, want %d (%v)", i, len(got), size, err)
		}
	}
	if got, err := control.ReadRecord(dir, 3, 2); got != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another incarnation: %q, %v", got, err)
	}
	if err := r.Write(make([]byte, 16<<20+1)); err == nil || err.Error() != "record of 16777217 bytes; allowed: up to 16777216" {
		t.Error(err)
	}
	if got, err := control.ReadRecord(dir, 3, 1); err != nil || len(got) != 4096 {
		t.Errorf("after a refused write: %d bytes, %v", len(got), err)
	}
}

// TestTornRecordIsTheOneBefore cuts the last write short after every byte, over
// what was in the slot before.
func TestTornRecordIsTheOneBefore(t *testing.T) {
	for writes := 1; writes <= 4; writes++ {
		dir := t.TempDir()
		r := newRecord(t, dir)
		content := func(i int) string { return fmt.Sprintf("record %d, of its own length%*s", i, i*7, "") }
		for i := 1; i < writes; i++ {
			r.Write([]byte(content(i)))
		}
		name := filepath.Join(dir, "3.1.record")
		old := readFile(t, name)
		if err := r.Write([]byte(content(writes))); err != nil {
			t.Fatal(err)
		}
		whole := readFile(t, name)
		begin := (writes - 1) % 2 * (16<<20 + 4096)
		size := 24 + len(content(writes))
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for cut := range size {
			// The slot as it was, under what the write came to; the rest of the file is large, and the same.
			before := make([]byte, size)
			copy(before, old[min(begin, len(old)):])
			_, err1 := f.WriteAt(before, int64(begin))
			_, err2 := f.WriteAt(whole[begin:begin+cut], int64(begin))
			if err := errors.Join(err1, err2, f.Truncate(int64(max(len(old), begin+cut)))); err != nil {
				t.Fatal(err)
			}
			want := ""
			if writes > 1 {
				want = content(writes - 1)
			}
			if got, err := control.ReadRecord(dir, 3, 1); err != nil || string(got) != want {
				t.Fatalf("write %d cut after %d bytes: %q, %v; want %q", writes, cut, got, err, want)
			}
		}
	}
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDamagedRecordIsAnError(t *testing.T) {
	dir := t.TempDir()
	r := newRecord(t, dir)
	r.Write([]byte("one"))
	r.Write([]byte("two"))
	f, err := os.OpenFile(filepath.Join(dir, "3.1.record"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.WriteAt([]byte("?"), 24)
	if got, err := control.ReadRecord(dir, 3, 1); err != nil || string(got) != "two" {
		t.Errorf("one slot: %q, %v", got, err)
	}
	f.WriteAt([]byte("?"), 16<<20+4096+24)
	if got, err := control.ReadRecord(dir, 3, 1); err == nil {
		t.Errorf("both slots: %q", got)
	}
}

// TestRemovedDirectoryHasNoEmptyRecords: while a directory is removed, a reader
// gets the record or an error, never «there is none».
func TestRemovedDirectoryHasNoEmptyRecords(t *testing.T) {
	read, gone := 0, 0
	for range 200 {
		dir, err := control.MakeDir(os.Getenv)
		if err != nil {
			t.Fatal(err)
		}
		r := newRecord(t, dir)
		r.Write([]byte("promised"))
		for i := range 20 { // to give the removal something to do
			os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600)
		}
		removed := make(chan struct{})
		go func() {
			time.Sleep(rand.N(100 * time.Microsecond))
			control.RemoveDir(dir)
			close(removed)
		}()
		for {
			b, err := control.ReadRecord(dir, 3, 1)
			if errors.Is(err, fs.ErrNotExist) {
				gone++
				break
			}
			if err != nil || string(b) != "promised" {
				t.Fatalf("%q, %v", b, err)
			}
			read++
		}
		<-removed
		r.Close()
	}
	if read == 0 || gone != 200 {
		t.Errorf("read %d times, gone %d times", read, gone)
	}
}

// scribe writes records until it is killed: each is a number and as many copies of
// its last byte as it says; small ones and large ones.
func scribe() int {
	r, err := control.OpenRecord(os.Getenv("SCRIBE_DIR"), 0, 1)
	if err != nil {
		return 2
	}
	fmt.Println("writes")
	for i := uint64(1); ; i++ {
		if r.Write(scribeRecord(i)) != nil {
			return 2
		}
		if i%16 == 0 {
			fmt.Println("wrote", i)
		}
	}
}

func scribeRecord(i uint64) []byte {
	b := binary.LittleEndian.AppendUint64(nil, i)
	return append(b, bytes.Repeat([]byte{byte(i)}, int(i*7919%(1<<20)))...)
}

// TestRecordSurvivesItsKilledWriter: what it said it had written is there, or
// something later, whole.
func TestRecordSurvivesItsKilledWriter(t *testing.T) {
	for range 20 {
		dir := t.TempDir()
		a := start(t, "scribe", []string{"SCRIBE_DIR=" + dir})
		a.lines.expect(t, "writes")
		time.Sleep(rand.N(20 * time.Millisecond))
		a.signal(t, syscall.SIGKILL)
		a.lines.expect(t, "end")
		a.cmd.Wait() // no thread of it writes any more
		var said uint64
		a.lines.mu.Lock()
		for _, note := range a.lines.notes {
			fmt.Sscanf(note, "wrote %d", &said)
		}
		a.lines.mu.Unlock()
		got, err := control.ReadRecord(dir, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		number := uint64(0)
		if len(got) > 0 {
			number = binary.LittleEndian.Uint64(got)
			if !bytes.Equal(got, scribeRecord(number)) {
				t.Errorf("record %d is not what was written: %d bytes", number, len(got))
			}
		}
		if number < said {
			t.Errorf("%d was written, %d is there", said, number)
		}
	}
}

func FuzzReadRecord(f *testing.F) {
	dir := f.TempDir()
	r := newRecord(f, dir)
	r.Write([]byte("some record"))
	whole := readFile(f, filepath.Join(dir, "3.1.record"))
	f.Add(whole, []byte(nil))
	f.Add(whole[:30], whole)
	f.Add([]byte("rec1"), bytes.Repeat([]byte{255}, 24))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		got, err := control.LatestRecord(first, second)
		again, errAgain := control.LatestRecord(first, second)
		if !bytes.Equal(got, again) || (err == nil) != (errAgain == nil) {
			t.Errorf("%q, then %q", got, again)
		}
		// What is read was written: the same bytes are in one of the slots.
		if len(got) > 0 && !bytes.Contains(first, got) && !bytes.Contains(second, got) {
			t.Errorf("%q comes from nowhere", got)
		}
		if err != nil && got != nil {
			t.Errorf("%q and %v", got, err)
		}
	})
}

func BenchmarkRecordWrite(b *testing.B) {
	for _, size := range []int{64, 512, 4096, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			r := newRecord(b, b.TempDir())
			record := make([]byte, size)
			for b.Loop() {
				if err := r.Write(record); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

//go:build unix

package spool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

func newJob(t *testing.T) *Job {
	t.Helper()
	j, err := New(t.TempDir(), "", About{Command: "prog", Began: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func keep(t *testing.T, j *Job, most int64) *Keeper {
	t.Helper()
	k, err := j.keep(most)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// followed is what Follow emits, the streams apart, and the last position.
func followed(j *Job, from int64) (out [streams]string, last int64, result *Result, err error) {
	result, err = j.Follow(context.Background(), from, func(stream int, data []byte, next int64) error {
		out[stream] += string(data)
		last = next
		return nil
	})
	return out, last, result, err
}

func TestOutputIsFollowedFromAnyRecordToTheEnd(t *testing.T) {
	j := newJob(t)
	k := keep(t, j, spoolMax)
	fmt.Fprint(k.Stream(Stdout), "one\n")
	done := make(chan struct{})
	go func() {
		defer close(done)
		out, last, result, err := followed(j, 0)
		if err != nil || out != [streams]string{"one\nthree\n", "two\n"} || result.Exit != 3 {
			t.Errorf("%q, %+v, %v", out, result, err)
		}
		for from, want := range map[int64]string{headerLen + 4: "three\n", last: ""} {
			if out, _, result, err := followed(j, from); err != nil || out[Stdout] != want || result.Exit != 3 {
				t.Errorf("from %d: %q, %+v, %v", from, out, result, err)
			}
		}
	}()
	time.Sleep(20 * time.Millisecond) // it waits for more
	fmt.Fprint(k.Stream(Stderr), "two\n")
	fmt.Fprint(k.Stream(Stdout), "three\n")
	if err := k.End(&Result{Exit: 3}); err != nil {
		t.Error(err)
	}
	<-done
}

// TestSpoolIsBounded: a reader who comes late is told how much it has missed, and gets the rest. One who reads at the
// same time misses nothing, although files are begun and removed under its eyes.
func TestSpoolIsBounded(t *testing.T) {
	const most, lines = 64 << 10, 20_000
	j := newJob(t)
	k := keep(t, j, most)
	var seen int64
	pace := make(chan int64, lines)
	follower := make(chan error, 1)
	go func() {
		want := 0
		_, err := j.Follow(context.Background(), 0, func(_ int, data []byte, next int64) error {
			if text := fmt.Sprintln("line", want); string(data) != text {
				return fmt.Errorf("%q, want %q", data, text)
			}
			want++
			pace <- next
			return nil
		})
		if err == nil && want != lines {
			err = fmt.Errorf("%d lines, want %d", want, lines)
		}
		follower <- err
	}()
	for i := range lines {
		fmt.Fprintln(k.Stream(Stdout), "line", i)
		for k.start+k.size-seen > most/2 { // so far behind it may be
			select {
			case seen = <-pace:
			case err := <-follower:
				t.Fatal(err)
			}
		}
	}
	if err := k.End(&Result{}); err != nil {
		t.Fatal(err)
	}
	if err := <-follower; err != nil {
		t.Error(err)
	}
	if bytes, _ := j.size(); bytes > most+4096 {
		t.Errorf("%d bytes are kept, want %d at most", bytes, most)
	}
	out, _, _, err := followed(j, 0)
	var missed int64
	if _, e := fmt.Sscanf(out[Stderr], "coppice: %d bytes of the output are missing here", &missed); err != nil || e != nil {
		t.Fatalf("%q, %v, %v", out[Stderr], e, err)
	}
	kept := int64(len(out[Stdout]) + headerLen*strings.Count(out[Stdout], "\n"))
	if end := k.start + k.size; missed == 0 || missed+kept != end || !strings.HasSuffix(out[Stdout], fmt.Sprintln("line", lines-1)) {
		t.Errorf("%d bytes missing and %d there, of %d", missed, kept, end)
	}
}

func TestLongWritesAreSeveralRecords(t *testing.T) {
	j := newJob(t)
	k := keep(t, j, spoolMax)
	text := strings.Repeat("0123456789abcdef", dataMax/16*2+5)
	if n, err := k.Stream(Stderr).Write([]byte(text)); n != len(text) || err != nil {
		t.Fatal(n, err)
	}
	_ = k.End(&Result{})
	if out, _, _, err := followed(j, 0); err != nil || out[Stderr] != text {
		t.Errorf("%d bytes, %v, want %d", len(out[Stderr]), err, len(text))
	}
}

// TestMain is, if it is told to, a keeper that writes a line, and half a record, and waits for its end.
func TestMain(m *testing.M) {
	dir := os.Getenv("SPOOL_TEST_KEEPER")
	if dir == "" {
		os.Exit(m.Run())
	}
	k, err := At(dir).Keep()
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(k.Stream(Stdout), "before")
	k.part.Write([]byte{Stdout, 9, 0, 0, 0, 'h', 'a'})
	fmt.Println("up")
	for {
		time.Sleep(time.Hour)
		runtime.KeepAlive(k) // and with it the lock
	}
}

func TestAKeeperThatWasKilledIsFound(t *testing.T) {
	j := newJob(t)
	keeper := exec.Command(os.Args[0])
	keeper.Env = append(os.Environ(), "SPOOL_TEST_KEEPER="+j.Path())
	out, err := keeper.StdoutPipe()
	if err == nil {
		err = keeper.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 3)); err != nil || !j.Runs() {
		t.Fatal(err, j.Runs())
	}
	if _, err := j.Keep(); err == nil {
		t.Fatal("a second keeper") // the signal would be for this process
	}
	if err := j.Signal(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	shown, _, result, err := followed(j, 0)
	if !errors.Is(err, ErrKilled) || result != nil || shown[Stdout] != "before\n" {
		t.Errorf("%q, %v, %v", shown, result, err)
	}
	_ = keeper.Wait()
	if err := j.Signal(syscall.SIGTERM); !errors.Is(err, ErrKilled) { // its number may be another's
		t.Error(err)
	}
}

func TestOneAttachesAtATime(t *testing.T) {
	j := newJob(t)
	detach, err := j.Attach()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Attach(); !errors.Is(err, ErrAttached) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Error(err)
	}
	detach()
	if detach, err = j.Attach(); err != nil {
		t.Fatal(err)
	}
	detach()
}

func TestSweepRemovesOldAndManyButNothingThatRuns(t *testing.T) {
	root := t.TempDir()
	began := time.Now().Add(-time.Hour)
	job := func(name string, bytes int, end bool) *Job {
		began = began.Add(time.Minute)
		j, err := New(root, name, About{Began: began})
		if err != nil {
			t.Fatal(err)
		}
		k := keep(t, j, spoolMax)
		k.Stream(Stdout).Write(make([]byte, bytes))
		if end {
			_ = k.End(&Result{})
		} else {
			t.Cleanup(func() { k.lock.Close() })
		}
		return j
	}
	job("old", 1<<20, true)
	running := job("running", 1<<20, false)
	job("new", 1<<20, true)
	if _, err := New(root, "hosts", About{Began: began.Add(time.Second), Hosts: []Host{{Name: "a", Ranks: []int{0}}}}); err != nil { // how they are is not known here
		t.Fatal(err)
	}
	names := func() (all string) {
		for _, j := range List(root) {
			all += j.Name + " "
		}
		return all
	}
	sweep(root, time.Now().Add(-AgeMax), 4<<20)
	if got := names(); got != "old running new hosts " {
		t.Errorf("left: %s", got)
	}
	sweep(root, time.Now().Add(-AgeMax), 5<<19)
	if got := names(); got != "running new hosts " {
		t.Errorf("left: %s", got)
	}
	sweep(root, time.Now().Add(time.Hour), 1<<30)
	if got := names(); got != "running hosts " {
		t.Errorf("left: %s", got)
	}
	if _, err := Open(root, "../"+filepath.Base(root)); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	if !running.Runs() {
		t.Error("it does not run")
	}
}

func TestRootIsTheUsersAlone(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(root); err != nil || info.Mode().Perm() != 0o700 {
		t.Error(info, err)
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Root(); err == nil || !strings.Contains(err.Error(), "mode 0700") {
		t.Error(err)
	}
}

// TestReaderMissesNothingBetweenTwoFiles: the keeper writes to the end of a file and begins the next one after a reader has
// found nothing more in the first, and before that looks for the next.
func TestReaderMissesNothingBetweenTwoFiles(t *testing.T) {
	j := newJob(t)
	k := keep(t, j, 100*parts)
	fmt.Fprint(k.Stream(Stdout), "one")
	r := &reader{job: j}
	defer r.close()
	if _, data, err := r.next(); string(data) != "one" || err != nil {
		t.Fatal(string(data), err)
	}
	if _, data, err := r.record(); data != nil || err != nil {
		t.Fatal(string(data), err)
	}
	fmt.Fprint(k.Stream(Stdout), "two")
	fmt.Fprint(k.Stream(Stdout), strings.Repeat("x", 100))
	if starts := j.starts(); len(starts) != 2 {
		t.Fatal(starts)
	}
	if missed, ok, err := r.turn(); missed > 0 || !ok || err != nil {
		t.Error(missed, ok, err)
	}
	if _, data, err := r.next(); string(data) != "two" || err != nil {
		t.Error(string(data), err)
	}
}

// TestOutputThatCannotBeKept: the job goes on without a place for its output, and a line says what is missing.
func TestOutputThatCannotBeKept(t *testing.T) {
	j := newJob(t)
	k := keep(t, j, spoolMax)
	say := func(text string) {
		if n, err := fmt.Fprint(k.Stream(Stdout), text); n != len(text) || err != nil {
			t.Errorf("%q: %d bytes, %v", text, n, err)
		}
	}
	say("one\n")
	k.part.Close() // as if the disk were full
	say("lost\n")
	say("lost, too\n")
	if err := k.next(); err != nil {
		t.Fatal(err)
	}
	say("two\n")
	k.part.Close()
	say("lost\n")
	if err := k.End(&Result{}); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
	var got string
	r, err := j.Follow(t.Context(), 0, func(_ int, data []byte, _ int64) error {
		got += string(data)
		return nil
	})
	if r == nil || err != nil {
		t.Fatal(r, err)
	}
	if ok, _ := regexp.MatchString(`^one\ncoppice: 15 bytes of the output are missing here: .* file already closed\ntwo\n$`, got); !ok {
		t.Errorf("%q", got)
	}
	if _, err := os.Stat(filepath.Join(j.path, reserveName)); !errors.Is(err, os.ErrNotExist) {
		t.Error("the reserve is still there")
	}
}

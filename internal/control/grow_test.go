//go:build unix

package control_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/internal/control"
)

// reserve gets one place.
func reserve(t *testing.T, s *control.Server, rank int) control.Place {
	t.Helper()
	places, err := s.Reserve(1, rank)
	if err != nil {
		t.Fatal(err)
	}
	return places[0]
}

func TestJoinersAreWelcomed(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 2, Grow: 2})
	clients, notes := crew(t, s, 2)
	p := reserve(t, s, -1)
	if p.Rank != 2 || p.Incarnation != 1 || p.Size != 2 || p.Grow != 2 {
		t.Errorf("%+v", p)
	}
	r := newRecorder()
	c, w, err := control.Join(t.Context(), p, r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !w.Joins || w.Size != 2 || w.Grow != 2 {
		t.Errorf("welcome: %+v", w)
	}
	c.Announce([]string{"2.sock"}, "here")
	for _, n := range append(notes, r) {
		n.awaitPeers(t, 3)
	}
	// It dies and comes back, as does one of the first.
	c.Close()
	clients[1].Close()
	notes[0].expect(t, "died 2.1 true left before the end")
	notes[0].expect(t, "died 1.1 true left before the end")
	for _, rank := range []int{2, 1} {
		p := reserve(t, s, rank)
		if p.Rank != rank || p.Incarnation != 2 {
			t.Errorf("%+v", p)
		}
		back := newRecorder()
		c, w, err := control.Join(t.Context(), p, back, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if !w.Joins {
			t.Errorf("welcome: %+v", w)
		}
		c.Announce([]string{"again.sock"}, "here")
		notes[0].await(t, "the next life", func() bool { return notes[0].peers[rank].Incarnation == 2 })
		if back.has(fmt.Sprintf("died %d", rank)) {
			t.Errorf("it heard of its own death: %q", back.notes)
		}
	}
	if st := s.Status(); len(st) != 3 || st[2].Incarnation != 2 || st[2].State != control.Present {
		t.Errorf("%+v", st)
	}
}

func TestFirstProcessesDoNotJoin(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 1, Grow: 1})
	c, w, err := control.Join(t.Context(), s.Place(0, 1), newRecorder(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if w.Joins || w.Grow != 1 {
		t.Errorf("%+v", w)
	}
}

func TestReserveRefuses(t *testing.T) {
	fixed := serve(t, control.ServerConfig{Size: 2})
	grows := serve(t, control.ServerConfig{Size: 2, Grow: 3})
	clients, notes := crew(t, grows, 2)
	reserve(t, grows, -1)
	check := func(s *control.Server, count, rank int, want string) {
		t.Helper()
		if p, err := s.Reserve(count, rank); err == nil || err.Error() != want {
			t.Errorf("reserve(%d, %d): %v, %v; want %s", count, rank, p, err, want)
		}
	}
	check(fixed, 1, -1, "the job does not grow; allowed: jobs of coppice run --grow MAX")
	check(grows, 0, -1, "0 processes; allowed: 1 or more")
	check(grows, 3, -1, "3 processes, but the job has grown by 1 of 3; allowed: 1 to 2")
	check(grows, 1, 1, "rank 1 is alive; allowed: a dead one, and none is")
	check(grows, 1, 2, "rank 2 is alive; allowed: a dead one, and none is") // about to be
	check(grows, 1, 3, "there is no rank 3; allowed: a dead one, and none is")
	check(grows, 1, 17, "there is no rank 17; allowed: a dead one, and none is")
	clients[1].Close()
	notes[0].expect(t, "died 1.1")
	check(grows, 1, 0, "rank 0 is alive; allowed: a dead one: 1")
	if _, err := grows.Reserve(2, -1); err != nil {
		t.Error(err)
	}
	check(grows, 1, -1, "the job has grown by 3 of 3 processes; allowed: --rank R, the id of a dead one")
	clients[0].Returned(0, "", true)
	notes[0].expect(t, "finished") // those to come have nothing to do
	check(grows, 1, 1, "the job has finished; allowed: one that runs")
}

// TestWithdrawnPlacesAreFreeAgain: their processes could not be started.
func TestWithdrawnPlacesAreFreeAgain(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 2, Grow: 1})
	clients, notes := crew(t, s, 2)
	clients[1].Close()
	notes[0].expect(t, "died 1.1")
	for _, rank := range []int{-1, 1, -1, 1} {
		s.Withdraw(reserve(t, s, rank))
	}
	if st := s.Status(); len(st) != 2 || st[1].State != control.Dead || st[1].Incarnation != 1 {
		t.Errorf("%+v", st)
	}
	if p := reserve(t, s, 1); p.Incarnation != 2 {
		t.Errorf("%+v", p)
	}
}

// TestJobOfJoinersEndsWithItsTasks: who joined and owns nothing keeps nobody
// waiting, who owns a task does.
func TestJobOfJoinersEndsWithItsTasks(t *testing.T) {
	for _, owns := range []bool{false, true} {
		t.Run(fmt.Sprint("owns ", owns), func(t *testing.T) {
			s := serve(t, control.ServerConfig{Size: 2, Grow: 2})
			clients, notes := crew(t, s, 2)
			joiner, theirs := join(t, reserve(t, s, -1))
			reserve(t, s, -1) // one that has been started and has not come yet
			owner := 1
			if owns {
				owner = 2
			}
			clients[0].Emit(control.Event{Type: "view", Attrs: map[string]any{
				"number": 2, "members": [][2]int{{0, 1}, {1, 1}, {2, 1}}, "owners": []int{0, owner}, "opened": true,
			}})
			clients[0].Returned(0, "", true)
			clients[1].Returned(0, "", true)
			theirs.expect(t, "returned 1")
			if owns {
				if theirs.has("finished") {
					t.Error("finished without the owner of a task")
				}
				joiner.Returned(0, "", true)
			}
			for _, n := range append(notes, theirs) {
				n.expect(t, "finished")
			}
		})
	}
}

// TestBrokenConnectionMissesNoLife: who was away while another died and came back
// is told both.
func TestBrokenConnectionMissesNoLife(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 3, Grow: 1})
	clients, notes := crew(t, s, 3)
	conn, err := control.Shake(t.Context(), s.Place(2, 2).Coordinator, s.Place(2, 2))
	if err == nil {
		conn.Close()
		t.Fatal("a second life beside the first")
	}
	clients[0].Break()
	clients[2].Close()
	notes[1].expect(t, "died 2.1")
	c, _ := join(t, reserve(t, s, 2))
	c.Announce([]string{"again.sock"}, "here")
	notes[0].expect(t, "died 2.1")
	notes[0].await(t, "the next life", func() bool { return notes[0].peers[2].Incarnation == 2 })
	_, late := join(t, reserve(t, s, -1)) // and so is who comes later
	late.expect(t, "died 2.1")
	late.await(t, "the next life", func() bool { return late.peers[2].Incarnation == 2 })
}

func TestPlaceOfAJoinerPassesThroughTheEnvironment(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 2, Grow: 3})
	want := reserve(t, s, -1)
	get := func(name string) string {
		for _, v := range want.Vars() {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value
			}
		}
		return ""
	}
	got, err := control.FromEnvironment(get)
	if err != nil || got.Rank != 2 || got.Size != 2 || got.Grow != 3 || got.LocalRank != 2 || got.LocalSize != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = control.FromEnvironment(func(name string) string {
		if name == "COPPICE_RANK" {
			return "5"
		}
		return get(name)
	})
	if err == nil || err.Error() != `COPPICE_RANK="5"; allowed: an integer from 0 to 4` {
		t.Error(err)
	}
}

func TestRequestJoinAsksTheLauncher(t *testing.T) {
	var asked control.JoinRequest
	s := serve(t, control.ServerConfig{Size: 1, Grow: 1, Join: func(r control.JoinRequest) ([]control.Joiner, error) {
		asked = r
		if r.Count == 2 {
			return nil, control.Refused("not two; allowed: 1")
		}
		return []control.Joiner{{Rank: 1, Incarnation: 1, Pid: 7}}, nil
	}})
	dir := s.Place(0, 1).Dir
	request := control.JoinRequest{Count: 1, Rank: -1, Program: []string{"./x", "--y"}, Dir: "/z"}
	got, err := control.RequestJoin(t.Context(), dir, request)
	if err != nil || len(got) != 1 || got[0].Pid != 7 || asked.Program[1] != "--y" || asked.Rank != -1 || asked.Dir != "/z" {
		t.Errorf("%+v, %v; asked %+v", got, err, asked)
	}
	request.Count = 2
	if _, err := control.RequestJoin(t.Context(), dir, request); err != control.Refused("not two; allowed: 1") {
		t.Error(err)
	}
	alone := serve(t, control.ServerConfig{Size: 1})
	if _, err := control.RequestJoin(t.Context(), alone.Place(0, 1).Dir, request); err == nil || !strings.HasPrefix(err.Error(), "the job was not started by coppice run") {
		t.Error(err)
	}
}

func TestJobsThatRunAreFound(t *testing.T) {
	shelf := t.TempDir()
	env := func(name string) string { return map[string]string{control.VarParent: shelf}[name] }
	mine := func() (dirs []string) {
		for _, dir := range control.Jobs(env) {
			if filepath.Dir(dir) == shelf {
				dirs = append(dirs, filepath.Base(dir))
			}
		}
		return dirs
	}
	if got := mine(); got != nil {
		t.Errorf("%q", got)
	}
	var want []string
	for range 2 {
		dir, err := os.MkdirTemp(shelf, "coppice-")
		if err != nil {
			t.Fatal(err)
		}
		s := serve(t, control.ServerConfig{Dir: dir, Size: 1})
		defer s.Close()
		want = append(want, filepath.Base(dir))
	}
	// What a killed job left, what is not one, and what is somebody else's.
	stale := filepath.Join(shelf, "coppice-stale")
	os.Mkdir(stale, 0o700)
	os.WriteFile(filepath.Join(stale, "control.sock"), nil, 0o600)
	os.Mkdir(filepath.Join(shelf, "coppice-empty"), 0o700)
	open := filepath.Join(shelf, "coppice-open")
	os.Mkdir(open, 0o755)
	os.Link(filepath.Join(shelf, want[0], "control.sock"), filepath.Join(open, "control.sock"))
	if got := mine(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if name := control.JobName(filepath.Join(shelf, want[0])); "coppice-"+name != want[0] {
		t.Error(name)
	}
}

// TestPlacesAreGivenThoughTheDirectoryWasRemoved: it is made again.
func TestPlacesAreGivenThoughTheDirectoryWasRemoved(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 1, Grow: 1})
	os.RemoveAll(s.Place(0, 1).Dir)
	if places, err := s.Reserve(1, -1); err != nil || len(places) != 1 {
		t.Errorf("%v, %v", places, err)
	}
}

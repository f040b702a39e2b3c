//go:build unix

package control_test

import (
	"bufio"
	"fmt"
	"hash/crc32"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/extent"
)

// leaveRecord writes a record of as many bytes as the environment says.
func leaveRecord(c *control.Client, rank int) error {
	if err := c.Record([]byte("an old one")); err != nil {
		return err
	}
	size, _ := strconv.Atoi(os.Getenv("RECORD_BYTES"))
	return c.Record(recordOf(rank, size))
}

func recordOf(rank, size int) []byte {
	return []byte(strings.Repeat(fmt.Sprintf("rank %d promised; ", rank), size/10+1))[:size]
}

// recordNote is what a recorder notes of it.
func recordNote(rank, size int) string {
	return fmt.Sprintf("record %d.1 %d bytes %08x", rank, size, crc32.ChecksumIEEE(recordOf(rank, size)))
}

// TestDeathCarriesTheRecord: small and large ones, to who was there and to who
// comes later, however many there are.
func TestDeathCarriesTheRecord(t *testing.T) {
	sizes := []int{40, 70_000, 5 << 20, 16 << 20, 7 << 20, 3}
	if extent.Few(t, "records of 7 and 16 MiB") {
		sizes = []int{40, 70_000, 5 << 20, 3}
	}
	s := serve(t, control.ServerConfig{Size: len(sizes) + 2})
	_, notes := join(t, s.Place(0, 1))
	for i, size := range sizes {
		rank := i + 1
		a := start(t, "record", append(s.Place(rank, 1).Vars(), fmt.Sprint("RECORD_BYTES=", size)))
		a.lines.expect(t, "recorded")
		a.signal(t, syscall.SIGKILL)
		notes.expect(t, recordNote(rank, size))
		notes.expect(t, fmt.Sprintf("died %d.1 true", rank))
	}
	_, late := join(t, s.Place(len(sizes)+1, 1))
	for i, size := range sizes {
		late.expect(t, recordNote(i+1, size))
		late.expect(t, fmt.Sprintf("died %d.1 true", i+1))
	}
}

// TestWhoLeavesHasARecordToo: on this host and on another.
func TestWhoLeavesHasARecordToo(t *testing.T) {
	for _, remote := range []bool{false, true} {
		s := serve(t, control.ServerConfig{Size: 2, TCP: "127.0.0.1:0"})
		_, notes := join(t, s.Place(0, 1))
		p := s.Place(1, 1)
		if remote {
			p.Coordinator = control.TCPAddress(s)
			p.Dir = elsewhere(t)
		}
		c, _ := join(t, p)
		t.Setenv("RECORD_BYTES", "33")
		if err := leaveRecord(c, 1); err != nil {
			t.Fatal(err)
		}
		c.Close()
		notes.expect(t, "died 1.1 true left before the end")
		if !notes.has(recordNote(1, 33)) {
			t.Errorf("on another host: %v: %q", remote, notes.notes)
		}
	}
}

// elsewhere is the directory of the job on another host.
func elsewhere(t *testing.T) string {
	t.Helper()
	dir, err := control.MakeDir(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// TestWhoseRecordCannotBeReadIsOnlySuspected: nobody knows what it has promised.
func TestWhoseRecordCannotBeReadIsOnlySuspected(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 2})
	_, notes := join(t, s.Place(0, 1))
	a := start(t, "record", append(s.Place(1, 1).Vars(), "RECORD_BYTES=100"))
	a.lines.expect(t, "recorded")
	name := filepath.Join(s.Place(1, 1).Dir, "1.1.record")
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteAt([]byte("?"), 30)
	f.WriteAt([]byte("?"), 16<<20+4096+30)
	f.Close()
	a.signal(t, syscall.SIGKILL)
	notes.expect(t, "died 1.1 false killed by SIGKILL, but its record cannot be read: record of rank 1 (incarnation 1): neither slot is whole")
}

// TestWillOfAnAgentIsPassedOn: what an agent found on another host comes with the
// death, and what it could not read makes that a suspicion.
func TestWillOfAnAgentIsPassedOn(t *testing.T) {
	for _, c := range []struct {
		will control.Will
		want []string
	}{
		{control.Will{Record: recordOf(1, 20)}, []string{recordNote(1, 20), "died 1.1 true killed by SIGKILL"}},
		{control.Will{}, []string{"died 1.1 true killed by SIGKILL"}},
		{control.Will{Unread: "no such disk"}, []string{"died 1.1 false killed by SIGKILL, but its record cannot be read: no such disk"}},
	} {
		s := serve(t, control.ServerConfig{Size: 2, TCP: "127.0.0.1:0"})
		_, notes := join(t, s.Place(0, 1))
		p := s.Place(1, 1)
		p.Coordinator, p.Dir = control.TCPAddress(s), elsewhere(t)
		s.Started(1, 1, os.Getpid())
		client, _ := join(t, p)
		client.Announce(nil, "there")
		notes.awaitPeers(t, 1)
		s.Exited(1, 1, "killed by SIGKILL", c.will)
		for _, want := range c.want {
			notes.expect(t, want)
		}
	}
}

// TestLeftoverRecordsAreForgotten: the next run of a job in the same directory has
// processes of the same names.
func TestLeftoverRecordsAreForgotten(t *testing.T) {
	dir, err := control.MakeDir(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	r, err := control.OpenRecord(dir, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Write([]byte("promised")); err != nil {
		t.Fatal(err)
	}
	s := serve(t, control.ServerConfig{Dir: dir, Size: 2})
	_, notes := join(t, s.Place(0, 1))
	c, _ := join(t, s.Place(1, 1))
	c.Close()
	notes.expect(t, "died 1.1 true left before the end")
	if notes.has("record") {
		t.Errorf("%q", notes.notes)
	}
}

// TestLowestRankIsToldFirst: when it hears of a death, the others have not, and they
// hear of it soon.
func TestLowestRankIsToldFirst(t *testing.T) {
	const others, lives = 6, 30
	s := serve(t, control.ServerConfig{Size: others + 1, Silence: time.Minute}) // these say nothing
	conns := make([]net.Conn, others)
	for rank := range conns {
		conn, err := control.Shake(t.Context(), s.Place(rank, 1).Coordinator, s.Place(rank, 1))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns[rank] = conn
	}
	first := bufio.NewScanner(conns[0])
	early := 0 // the last had heard of it, too
	for life := uint64(1); life <= lives; life++ {
		c, _ := join(t, s.Place(others, life))
		c.Close()
		word := fmt.Sprintf(`"died","rank":%d,"incarnation":%d,`, others, life)
		for first.Scan() && !strings.Contains(first.Text(), word) {
		}
		if strings.Contains(waiting(t, conns[others-1]), word) {
			early++
			continue
		}
		for began := time.Now(); !strings.Contains(waiting(t, conns[others-1]), word); time.Sleep(time.Millisecond) {
			if time.Since(began) > patience {
				t.Fatalf("life %d: the last is not told", life)
			}
		}
	}
	if early > lives/3 { // a busy machine may have kept us from looking
		t.Errorf("the last had heard of %d deaths of %d when the first did", early, lives)
	}
}

// waiting is what can be read from a connection now.
func waiting(t *testing.T, conn net.Conn) string {
	t.Helper()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	buf, n := make([]byte, 1<<16), 0
	raw.Read(func(fd uintptr) bool {
		n, _ = syscall.Read(int(fd), buf)
		return true
	})
	return string(buf[:max(n, 0)])
}

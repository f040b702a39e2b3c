package control

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/coppice-go/coppice/internal/wire"
)

// Incarnations. A launcher counts the lives of a rank and gives each process its number. Without a launcher, a process joins
// without a number, and the coordinator chooses it: a process that was started again, with the same variables, is the next
// incarnation of its rank. Every process draws a random number when it begins, its life, and sends it in each handshake. So the
// coordinator can tell a process that comes back after a broken connection from another process in its place.
//
// The coordinator admits the next process when the previous one is dead, as far as is known: the kernel says so, a view has
// continued without it, or, on another host, its connection is broken. The last is a suspicion, on which the
// members of the view decide; until they have, the next process waits for a view to join.

// incarnationGap bounds the gap that a successor leaves between the latest incarnation of a rank that it knows and the first that it
// chooses. Its predecessor may have chosen numbers that no process has reported, and two processes must never have
// the same number.
const incarnationGap = 1 << 16

// incarnation returns the incarnation of a process that has proven the key. s.mu is held.
func (s *Server) incarnation(id wire.Identity, p *process) uint64 {
	m := s.members[id.From]
	switch {
	case id.Incarnation > 0:
		return id.Incarnation
	case m.joined && m.death == nil && m.life == id.Life && m.same(id, p): // it has not received its number
		return m.incarnation
	case m.incarnation == 0 && !m.removed && !s.begins.has(id.From):
		return 1
	case s.cfg.heir == nil || m.numbered:
		return max(m.incarnation, 1) + 1
	}
	return max(m.incarnation, 1) + m.gap
}

// The first view has the first incarnation of every rank, so a process that joins late must get number 1 from a successor, too. Before a
// coordinator gives number 1 to a process, it notes that in a file of the directory. A successor that finds the file of the coordinator
// that it replaces knows which ranks have not begun. Without that file it takes all ranks for begun.

const beginsName = "begun"

// begins are the ranks whose first incarnation has been given, or may have been.
type begins struct {
	dir      string
	instance uint64 // of the coordinator
	ranks    []byte // 1: given
}

func (b *begins) has(rank uint32) bool { return b.ranks[rank] != 0 }

// inherit takes over what the coordinator of that number has noted.
func (b *begins) inherit(predecessor uint64) {
	noted, err := os.ReadFile(filepath.Join(b.dir, beginsName))
	if err == nil && len(noted) == 8+len(b.ranks) && binary.LittleEndian.Uint64(noted) == predecessor {
		b.ranks = noted[8:]
		return
	}
	for rank := range b.ranks {
		b.ranks[rank] = 1
	}
}

// write creates the file.
func (b *begins) write() error {
	return writeFile(b.dir, beginsName, append(binary.LittleEndian.AppendUint64(nil, b.instance), b.ranks...), os.Rename)
}

// note notes that the first incarnation of a rank is given.
func (b *begins) note(rank int) error {
	b.ranks[rank] = 1
	f, err := os.OpenFile(filepath.Join(b.dir, beginsName), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(b.ranks[rank:rank+1], int64(8+rank))
	return err
}

// noteBegun notes that the first incarnation of a rank is given. s.mu is held.
func (s *Server) noteBegun(rank int) {
	if rank >= len(s.members) || s.begins.has(uint32(rank)) {
		return
	}
	if err := s.begins.note(rank); err != nil && !errors.Is(err, fs.ErrNotExist) { // keepDir writes the file again
		s.log.Warn("control: the first incarnation of a rank cannot be noted", "rank", rank, "error", err)
		_ = os.Remove(filepath.Join(s.begins.dir, beginsName)) // a successor takes all ranks for begun
	}
}

// vacant reports whether another process may take the place of this one. counted: the coordinator counts
// the lives of the rank.
func (m *member) vacant(counted bool) bool {
	switch {
	case m.death != nil:
		return true
	case m.process != nil:
		return m.process.exited()
	case m.removed:
		return counted || !m.joined
	case m.joined:
		return counted && m.session == nil
	}
	return m.peer == nil
}

// replaced ends the life of a rank before that of another process, which has come. s.mu is held.
func (s *Server) replaced(m *member, next uint64) {
	const how = "another process has come in its place"
	switch {
	case m.death != nil:
	case m.process != nil:
		s.die(m, Death{Certain: true, How: m.how()})
	case m.joined || m.peer != nil:
		s.die(m, Death{How: how})
	case m.incarnation == 0 && m.rank < s.cfg.Size && next > 1:
		s.giveUp(m, "never joined: "+how)
	}
}

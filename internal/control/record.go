package control

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coppice-go/coppice/internal/posix"
)

// A record is what a process leaves behind of its promises (rule 2 of the
// design): the view that it accepted last. It is a file in the job's directory, so
// the kernel keeps it whenever the process is killed, and the process that sees
// the death reads it there. It need not survive the host: a host that fails takes
// its processes and their agent with it, and these are not certainly dead.
//
// The file has two slots, written in turn, so that one of them is whole at any
// time:
//
//	magic     4 bytes
//	checksum  4 bytes, of all that follows
//	length    8 bytes, of the record
//	sequence  8 bytes: the higher of the two slots counts
//	record
//
// If a write was cut short, the previous record counts. The second slot begins at
// slotSize; the space between takes no blocks.
//
// The process holds a lock on the file, from before the file has its name. The kernel releases it with
// the process: a process that gets the lock knows that the owner is dead (Ended).

const (
	recordMax  = 16 << 20
	slotSize   = recordMax + 4096
	slotHeader = 24
)

var (
	recordMagic = [4]byte{'r', 'e', 'c', '1'}
	castagnoli  = crc32.MakeTable(crc32.Castagnoli)
)

// recordName returns the name of the file of one incarnation of a rank.
func recordName(rank int, incarnation uint64) string {
	return strconv.Itoa(rank) + "." + strconv.FormatUint(incarnation, 10) + recordSuffix
}

const recordSuffix = ".record"

// Record is where a process writes what must outlive it.
type Record struct {
	mu       sync.Mutex
	path     string
	file     *os.File
	sequence uint64
	buf      []byte
}

// OpenRecord creates the record, which is empty at first, of one incarnation of a rank in the
// job's directory.
func OpenRecord(dir string, rank int, incarnation uint64) (*Record, error) {
	path := filepath.Join(dir, recordName(rank, incarnation))
	f, err := newRecord(path, nil)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	return &Record{path: path, file: f}, nil
}

// newRecord creates the file of a record. The file gets its name when it is complete and locked: an empty file would
// mean that nothing was written, an unlocked file that its process is dead.
func newRecord(path string, write func(f *os.File) error) (*os.File, error) {
	dir, name := filepath.Split(path)
	f, err := os.CreateTemp(dir, "*-"+name) // mode 0600
	if err != nil {
		return nil, err
	}
	err = posix.Flock(f, posix.LOCK_EX|posix.LOCK_NB)
	if err == nil && write != nil {
		err = write(f)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Ended reports whether one incarnation of a rank, which has joined on this host, is dead or has left the
// job. False: that is not known.
func Ended(dir string, rank int, incarnation uint64) bool {
	f, err := os.OpenFile(filepath.Join(dir, recordName(rank, incarnation)), os.O_RDONLY|posix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return posix.Flock(f, posix.LOCK_SH|posix.LOCK_NB) == nil
}

// HasJoined reports whether one incarnation of a rank has joined the job on this host.
func HasJoined(dir string, rank int, incarnation uint64) bool {
	_, err := os.Lstat(filepath.Join(dir, recordName(rank, incarnation)))
	return err == nil
}

// runs reports whether the job of a directory runs: a process of it lives, and a coordinator answers. If none does within
// that time, such a process has been stopped, or is one of an earlier run that is about to exit.
func runs(dir string, key []byte, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for ; inUse(dir) && ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		if _, _, err := probe(ctx, controlPath(dir), key, seedTry); err == nil {
			return true
		}
	}
	return false
}

// inUse reports whether a process lives that has joined the job of a directory.
func inUse(dir string) bool {
	records, _ := filepath.Glob(filepath.Join(dir, "*"+recordSuffix))
	return slices.ContainsFunc(records, func(path string) bool {
		return !strings.Contains(filepath.Base(path), "-") && posix.Locked(path) // the others are not complete (newRecord)
	})
}

// endSuffix is the suffix of the file by which a process says that it knows of the job's end. Without a launcher, only this
// tells a process that has failed from one that the others continued without.
const endSuffix = ".end"

// noteEnd says, to the agent of this host, that this process knows of the job's end.
func (c *Client) noteEnd() {
	if c.place.Settings == nil {
		return
	}
	name := filepath.Join(c.place.Dir, recordName(c.place.Rank, c.place.Incarnation)+endSuffix)
	if f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|posix.O_NOFOLLOW, 0o600); err == nil {
		f.Close()
	} else {
		c.log.Warn("control: the end of the job cannot be noted", "error", err)
	}
}

// KnewEnd reports whether one incarnation of a rank, which was on this host, knew of the job's end.
func KnewEnd(dir string, rank int, incarnation uint64) bool {
	_, err := os.Lstat(filepath.Join(dir, recordName(rank, incarnation)+endSuffix))
	return err == nil
}

// Write replaces what was written before with b. When it has returned, b
// outlives the process. After an error the record is the previous one.
func (r *Record) Write(b []byte) error {
	if len(b) > recordMax {
		return fmt.Errorf("record of %d bytes; allowed: up to %d", len(b), recordMax)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buf = appendSlot(r.buf[:0], r.sequence+1, b)
	at := int64(r.sequence%2) * slotSize
	if _, err := r.file.WriteAt(r.buf, at); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	r.sequence++
	return nil
}

// Close closes the file, and leaves it where it is.
func (r *Record) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file.Close()
}

// read returns what was written last.
func (r *Record) read() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return latest(r.file)
}

// keep recreates the file, with its content, if it has lost its name.
func (r *Record) keep() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if hasName(r.file, r.path) {
		return nil
	}
	record, err := latest(r.file)
	if err != nil {
		return err
	}
	f, err := newRecord(r.path, func(f *os.File) error {
		if r.sequence == 0 {
			return nil
		}
		_, err := f.WriteAt(appendSlot(nil, r.sequence, record), int64((r.sequence-1)%2)*slotSize)
		return err
	})
	if err != nil {
		return err
	}
	r.file.Close()
	r.file = f
	return nil
}

func appendSlot(b []byte, sequence uint64, record []byte) []byte {
	b = append(b, recordMagic[:]...)
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(record)))
	b = binary.LittleEndian.AppendUint64(b, sequence)
	b = append(b, record...)
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[8:], castagnoli))
	return b
}

// ReadRecord reads what one incarnation of a rank has left in the job's
// directory; the result is empty if that incarnation has written nothing. The incarnation must be
// dead. If the file is missing (fs.ErrNotExist), the process has not joined, or
// somebody has removed the directory: a caller that does not know which cannot know what was
// written.
func ReadRecord(dir string, rank int, incarnation uint64) ([]byte, error) {
	b, err := readRecord(filepath.Join(dir, recordName(rank, incarnation)))
	if err != nil {
		return nil, fmt.Errorf("record of rank %d (incarnation %d): %w", rank, incarnation, err)
	}
	return b, nil
}

func readRecord(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|posix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return latest(f)
}

var errDamaged = errors.New("neither slot is whole")

// latest returns the record of the slot that was written last and is complete. A slot
// that was never written, or only in part while the other was empty, has none.
func latest(f io.ReaderAt) ([]byte, error) {
	var (
		best     []byte
		sequence uint64
		broken   int
	)
	for at := range int64(2) {
		record, n, err := readSlot(f, at*slotSize)
		switch {
		case errors.Is(err, errDamaged):
			broken++
		case err != nil:
			return nil, err
		case n > sequence:
			best, sequence = record, n
		}
	}
	if broken == 2 { // no killed process leaves that
		return nil, errDamaged
	}
	return best, nil
}

// readSlot reads a slot. Sequence 0: there is nothing in it.
func readSlot(f io.ReaderAt, at int64) (record []byte, sequence uint64, err error) {
	var h [slotHeader]byte
	switch n, err := f.ReadAt(h[:], at); {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, 0, err
	case n == 0 || h == [slotHeader]byte{}:
		return nil, 0, nil
	case n < slotHeader || [4]byte(h[:4]) != recordMagic:
		return nil, 0, errDamaged
	}
	length := binary.LittleEndian.Uint64(h[8:])
	if length > recordMax {
		return nil, 0, errDamaged
	}
	body := io.NewSectionReader(f, at+slotHeader, int64(length))
	if record, err = io.ReadAll(body); err != nil {
		return nil, 0, err
	}
	sum := crc32.Update(crc32.Checksum(h[8:], castagnoli), castagnoli, record)
	if uint64(len(record)) != length || sum != binary.LittleEndian.Uint32(h[4:]) {
		return nil, 0, errDamaged
	}
	return record, binary.LittleEndian.Uint64(h[16:]), nil
}

// forgetRecords removes what the processes of a killed job have left
// where the next job begins.
func forgetRecords(dir string) error {
	old, err := filepath.Glob(filepath.Join(dir, "*"+recordSuffix))
	for _, name := range old {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

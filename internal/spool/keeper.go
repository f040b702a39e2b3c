package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// The streams of a job.
const (
	Stdout = iota
	Stderr
	streams
)

// Bounds of a spool.
const (
	spoolMax  = 64 << 20
	parts     = 16      // files at most
	dataMax   = 1 << 20 // of a record
	headerLen = 5       // of a record: its stream, and the length of its data
)

const partPrefix = "spool."

// Keeper gives the job's keeper access to its directory. Any goroutine may call its methods.
type Keeper struct {
	*Job
	lock *os.File

	mu    sync.Mutex
	most  int64 // bytes of a file, at most
	part  *os.File
	start int64 // where that file begins in the spool
	size  int64 // the size of that file

	missing int64 // bytes that could not be written since the last record
	why     error // and why
}

// Keep makes this process the keeper of the job, until it ends.
func (j *Job) Keep() (*Keeper, error) { return j.keep(spoolMax) }

func (j *Job) keep(most int64) (*Keeper, error) {
	lock, err := j.take(keeperName)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("job %s has a keeper already", j.Name)
	}
	if err != nil {
		return nil, err
	}
	k := &Keeper{Job: j, lock: lock, most: most / parts}
	if err := os.WriteFile(filepath.Join(j.path, reserveName), make([]byte, reserve), 0o600); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return k, k.next()
}

// reserve is how many bytes are kept free for the result: others may fill the disk while the job runs.
const (
	reserve     = 32 << 10
	reserveName = "reserve"
)

// next begins the next file of the spool, and removes the oldest if there are too many.
func (k *Keeper) next() error {
	f, err := os.OpenFile(k.partPath(k.start+k.size), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	k.part.Close() // of nil, too
	k.part, k.start, k.size = f, k.start+k.size, 0
	for starts := k.starts(); len(starts) > parts; starts = starts[1:] {
		if err := os.Remove(k.partPath(starts[0])); err != nil {
			return err
		}
	}
	return nil
}

func (j *Job) partPath(start int64) string {
	return filepath.Join(j.path, partPrefix+strconv.FormatInt(start, 10))
}

// starts returns the positions at which the files of the spool begin.
func (j *Job) starts() (starts []int64) {
	entries, _ := os.ReadDir(j.path)
	for _, e := range entries {
		if text, ok := strings.CutPrefix(e.Name(), partPrefix); ok {
			if n, err := strconv.ParseInt(text, 10, 64); err == nil {
				starts = append(starts, n)
			}
		}
	}
	slices.Sort(starts)
	return starts
}

// Stream returns where the keeper writes the output of a stream.
func (k *Keeper) Stream(stream int) io.Writer { return keptStream{k, byte(stream)} }

type keptStream struct {
	keeper *Keeper
	stream byte
}

// Write keeps b. What there is no room for is dropped: no job ends because its output cannot be kept.
func (s keptStream) Write(b []byte) (int, error) {
	for some := range slices.Chunk(b, dataMax) {
		s.keeper.keep(s.stream, some)
	}
	return len(b), nil
}

// keep adds a record, after one that says what is missing.
func (k *Keeper) keep(stream byte, data []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.missing > 0 && k.append(Stderr, k.gap()) == nil {
		k.missing = 0
	}
	err := k.why
	if k.missing == 0 {
		err = k.append(stream, data)
	}
	if err != nil {
		k.missing, k.why = k.missing+int64(len(data)), err
	}
}

// gap is the line in the place of what is missing.
func (k *Keeper) gap() []byte {
	return fmt.Appendf(nil, "coppice: %d bytes of the output are missing here: %v\n", k.missing, k.why)
}

// append adds a record. k.mu is held.
func (k *Keeper) append(stream byte, data []byte) error {
	record := append(binary.LittleEndian.AppendUint32([]byte{stream}, uint32(len(data))), data...)
	if k.size > 0 && k.size+int64(len(record)) > k.most {
		if err := k.next(); err != nil {
			return err
		}
	}
	n, err := k.part.Write(record)
	if err != nil && n > 0 { // readers would stop at half a record
		err = errors.Join(err, k.part.Truncate(k.size))
	} else {
		k.size += int64(n)
	}
	return err
}

// End records how the job ended. The caller is no longer the keeper.
func (k *Keeper) End(r *Result) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	_ = os.Remove(filepath.Join(k.path, reserveName)) // nobody needs it if the result can be written
	if k.missing > 0 {
		_ = k.append(Stderr, k.gap())
	}
	err := k.SetResult(r)
	return errors.Join(err, k.part.Close(), k.lock.Close())
}

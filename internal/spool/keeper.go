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

// Keeper is the hand of the job's keeper on its directory. Its methods may be called by any goroutine.
type Keeper struct {
	*Job
	lock *os.File

	mu    sync.Mutex
	most  int64 // bytes of a file
	part  *os.File
	start int64 // of that file in the spool
	size  int64 // of it
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
	return k, k.next()
}

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

// starts are the positions at which the files of the spool begin.
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

// Stream is where the keeper writes what belongs to a stream.
func (k *Keeper) Stream(stream int) io.Writer { return keptStream{k, byte(stream)} }

type keptStream struct {
	keeper *Keeper
	stream byte
}

func (s keptStream) Write(b []byte) (n int, err error) {
	for len(b[n:]) > 0 && err == nil {
		some := b[n:min(len(b), n+dataMax)]
		if err = s.keeper.append(s.stream, some); err == nil {
			n += len(some)
		}
	}
	return n, err
}

// append adds a record.
func (k *Keeper) append(stream byte, data []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	record := append(binary.LittleEndian.AppendUint32([]byte{stream}, uint32(len(data))), data...)
	if k.size > 0 && k.size+int64(len(record)) > k.most {
		if err := k.next(); err != nil {
			return err
		}
	}
	n, err := k.part.Write(record)
	if err != nil && n > 0 { // half a record would be the end for readers
		err = errors.Join(err, k.part.Truncate(k.size))
	} else {
		k.size += int64(n)
	}
	return err
}

// End says how the job ended. The caller is the keeper no more.
func (k *Keeper) End(r *Result) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.SetResult(r)
	return errors.Join(err, k.part.Close(), k.lock.Close())
}

package spool

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// Emit receives the next output of a stream; next is the position after it.
type Emit func(stream int, data []byte, next int64) error

// waitMax is the longest time between two looks of a follower.
const waitMax = 50 * time.Millisecond

// Follow emits the output of the job from a position on, until the job has ended. It returns ErrKilled if
// the keeper was killed. Without emit it only waits.
func (j *Job) Follow(ctx context.Context, from int64, emit Emit) (*Result, error) {
	r := &reader{job: j, at: from}
	defer r.close()
	for wait := time.Millisecond; ; wait = min(2*wait, waitMax) {
		runs, result := j.Runs(), j.Result() // before the last look at the spool
		if !runs && result == nil {
			result = j.Result() // it ended between the two looks
		}
		emitted, err := r.emit(emit)
		switch {
		case err != nil:
			return nil, err
		case result != nil:
			return result, nil
		case !runs:
			return nil, ErrKilled
		case emitted:
			wait = time.Millisecond
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// reader reads the records of a spool.
type reader struct {
	job  *Job
	at   int64
	part *os.File // the file that at is in
	from int64    // its start
	size int64    // its size at the last look
}

func (r *reader) close() { r.part.Close() } // of nil, too

// emit emits all complete records.
func (r *reader) emit(emit Emit) (some bool, err error) {
	for emit != nil {
		stream, data, err := r.next()
		if err != nil || data == nil {
			return some, err
		}
		if err := emit(stream, data, r.at); err != nil {
			return some, err
		}
		some = true
	}
	return false, nil
}

// next returns the next record; nil: there is none yet.
func (r *reader) next() (stream int, data []byte, err error) {
	for {
		if r.part != nil {
			if stream, data, err = r.record(); data != nil || err != nil {
				return stream, data, err
			}
		}
		missed, ok, err := r.turn()
		switch {
		case err != nil || !ok:
			return 0, nil, err
		case missed > 0:
			return Stderr, fmt.Appendf(nil, "coppice: %d bytes of the output are missing here: it has outgrown the %d MiB that are kept\n", missed, spoolMax>>20), nil
		}
	}
}

// record reads the record at the position; nil: it is absent or incomplete.
func (r *reader) record() (stream int, data []byte, err error) {
	var header [headerLen]byte
	if n, err := r.part.ReadAt(header[:], r.at-r.from); n < headerLen {
		return 0, nil, unlessEnd(err)
	}
	length := binary.LittleEndian.Uint32(header[1:])
	if header[0] >= streams || length == 0 || length > dataMax {
		return 0, nil, fmt.Errorf("%s is damaged at byte %d", r.part.Name(), r.at-r.from)
	}
	data = make([]byte, length)
	if n, err := r.part.ReadAt(data, r.at-r.from+headerLen); n < len(data) {
		return 0, nil, unlessEnd(err)
	}
	r.at += headerLen + int64(length)
	return int(header[0]), data, nil
}

func unlessEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// turn opens the file that the position is in, if it is another one than before. missed is how much before that is gone.
func (r *reader) turn() (missed int64, ok bool, err error) {
	starts := r.job.starts()
	if r.part != nil { // it may have grown since the last look, and the next one was begun
		info, err := r.part.Stat()
		if err != nil {
			return 0, false, err
		}
		if size := info.Size(); size > r.size {
			r.size = size
			return 0, true, nil
		}
	}
	for _, start := range starts {
		if r.part != nil && (start <= r.from || start < r.at) || r.part == nil && r.ends(start) {
			continue
		}
		part, err := os.Open(r.job.partPath(start))
		if errors.Is(err, fs.ErrNotExist) { // removed in the meantime
			continue
		}
		if err != nil {
			return 0, false, err
		}
		r.part.Close()
		r.part, r.from, r.size = part, start, 0
		missed = max(0, start-r.at)
		r.at += missed
		return missed, true, nil
	}
	return 0, false, nil
}

// ends reports whether the file that begins at start ends before the position.
func (r *reader) ends(start int64) bool {
	info, err := os.Stat(r.job.partPath(start))
	return err != nil || start+info.Size() < r.at
}

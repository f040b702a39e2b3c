package samplesort

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"

	"github.com/coppice-go/coppice/apps/input"
)

// Files is the files of a directory, in the order of their names, as one sequence of records.
type Files struct {
	Layout
	Count int    // of records
	Mark  string // changes if the name, the size or the modification time of any file changes

	files input.Files
	ends  []int // records up to the end of each file
}

// OpenFiles opens the files of a directory. Each has a whole number of records.
func OpenFiles(dir string, l Layout) (*Files, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	names, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("directory %s is empty; allowed: one with files of records", dir)
	}
	f := &Files{Layout: l}
	for _, name := range names {
		if err := f.open(filepath.Join(dir, name.Name())); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	f.Mark = f.files.Mark()
	return f, nil
}

func (f *Files) open(path string) error {
	file, err := f.files.Open(path)
	if err != nil {
		return err
	}
	if file.Size()%int64(f.Size) != 0 {
		return fmt.Errorf("%s has %d bytes; allowed: a multiple of %d, the size of a record", path, file.Size(), f.Size)
	}
	f.Count += int(file.Size() / int64(f.Size))
	f.ends = append(f.ends, f.Count)
	return nil
}

// Close closes the files.
func (f *Files) Close() error { return f.files.Close() }

// Load reads the records of task i of n, as they were when the files were opened: it fails if any file has
// changed since.
func (f *Files) Load(ctx context.Context, i, n int) ([]byte, error) {
	lo, hi := stretch(i-1, n, f.Count), stretch(i, n, f.Count)
	records := make([]byte, (hi-lo)*f.Size)
	for rest := records; len(rest) > 0; {
		k := sort.SearchInts(f.ends, lo+1) // the file that has record lo
		begin := 0
		if k > 0 {
			begin = f.ends[k-1]
		}
		end := min(hi, f.ends[k])
		if err := readAt(ctx, f.files[k], rest[:(end-lo)*f.Size], int64(lo-begin)*int64(f.Size)); err != nil {
			return nil, cmp.Or(f.files.Unchanged(), err)
		}
		lo, rest = end, rest[(end-lo)*f.Size:]
	}
	return records, f.files.Unchanged()
}

// readAt fills b with what a file has from offset at on.
func readAt(ctx context.Context, f input.File, b []byte, at int64) error {
	const block = 16 << 20
	for len(b) > 0 {
		if ctx.Err() != nil {
			return fmt.Errorf("reading %s: %w", f.Name(), context.Cause(ctx))
		}
		n, err := f.ReadAt(b[:min(len(b), block)], at)
		if err != nil && n < min(len(b), block) {
			return fmt.Errorf("reading %s: %w", f.Name(), err)
		}
		b, at = b[n:], at+int64(n)
	}
	return nil
}

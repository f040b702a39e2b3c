package samplesort

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
)

// Files are the files of a directory, in the order of their names, as one sequence of records.
type Files struct {
	Layout
	Count int    // of records
	Mark  string // of names, sizes and times of change: another one if any of them is another

	paths []string
	ends  []int // records up to the end of each file
}

// OpenFiles finds the files of a directory. Each has a whole number of records.
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
	mark := uint64(golden)
	for _, name := range names {
		path := filepath.Join(dir, name.Name())
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, err
		case !info.Mode().IsRegular():
			return nil, fmt.Errorf("%s is not a file; allowed: files of records", path)
		case info.Size()%int64(l.Size) != 0:
			return nil, fmt.Errorf("%s has %d bytes; allowed: a multiple of %d, the size of a record", path, info.Size(), l.Size)
		}
		file, err := os.Open(path) // whether it may be read
		if err != nil {
			return nil, err
		}
		file.Close()
		f.Count += int(info.Size() / int64(l.Size))
		f.paths, f.ends = append(f.paths, path), append(f.ends, f.Count)
		mark = mix(mark ^ hash([]byte(name.Name())))
		mark = mix(mark^uint64(info.Size())) ^ uint64(info.ModTime().UnixNano())
	}
	f.Mark = fmt.Sprintf("%016x", mix(mark))
	return f, nil
}

// Load reads the records of task i of n.
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
		if err := readAt(ctx, f.paths[k], rest[:(end-lo)*f.Size], int64(lo-begin)*int64(f.Size)); err != nil {
			return nil, err
		}
		lo, rest = end, rest[(end-lo)*f.Size:]
	}
	return records, nil
}

// readAt fills b with what a file has from offset at on.
func readAt(ctx context.Context, path string, b []byte, at int64) error {
	const block = 16 << 20
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for len(b) > 0 {
		if ctx.Err() != nil {
			return fmt.Errorf("reading %s: %w", path, context.Cause(ctx))
		}
		n, err := f.ReadAt(b[:min(len(b), block)], at)
		if err != nil && n < min(len(b), block) {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		b, at = b[n:], at+int64(n)
	}
	return nil
}

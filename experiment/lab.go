package experiment

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// Lab simulates cells, or lets a Starter measure them, and remembers the results.
type Lab struct {
	Runs    int // of a cell, at least, unless an experiment needs fewer
	Seed    uint64
	Workers int    // 0: all cores
	Dir     string // where cells are kept; empty: nowhere
	// Progress, if not nil, is called from any goroutine with the progress of the present call of
	// Measure.
	Progress func(Progress)
	// Starter starts the processes of measured experiments; nil: they are skipped.
	Starter Starter
	// Processes lists the numbers of processes to measure with; empty: as each experiment says.
	Processes []int
	// Scales lists the scales of the tables of queries; empty: as each experiment says.
	Scales []float64

	cells map[string]*Sample
	used  map[*Sample]bool // since an experiment began

	launched float64 // how many seconds its launches took, now or earlier
}

// Progress is the progress of a call of Measure.
type Progress struct {
	Cell, Cells int   // the present one, counted from 1, and how many there are
	Done, Total int64 // work, in units of about a microsecond
}

// Cell is one configuration to simulate.
type Cell struct {
	Spec broadcast.Spec
	Net  logp.Network
	Dead int // from the start, drawn anew in each run
	Runs int `json:"-"` // at least; 0: the Lab's
}

// edition is the version of what cells mean. Raise it when the same cell would give other results, which
// makes the files on disk worthless.
const edition = 1

// key returns the name of a cell with its seed.
func (l *Lab) key(c Cell) (name string, seed uint64) {
	return digest(struct {
		Edition int
		Seed    uint64
		Cell
	}{edition, l.Seed, c})
}

// digest returns a name and a number that are practically unique to a plain value.
func digest(value any) (name string, number uint64) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12]), binary.LittleEndian.Uint64(sum[16:])
}

// Measure simulates cells, or the runs of them that are still missing.
func (l *Lab) Measure(ctx context.Context, cells ...Cell) ([]*Sample, error) {
	if l.used == nil {
		l.used = make(map[*Sample]bool)
	}
	samples := make([]*Sample, len(cells))
	meter := meter{progress: l.Progress, state: Progress{Cells: len(cells)}}
	for i, c := range cells {
		s, err := l.load(c)
		if err != nil {
			return nil, err
		}
		samples[i] = s
		l.used[s] = true
		meter.state.Total += int64(max(l.runs(c)-s.Runs, 0)) * c.cost()
	}
	for i, c := range cells {
		meter.state.Cell = i + 1
		if err := l.complete(ctx, c, samples[i], &meter); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

// seconds returns how long the cells in use took to simulate, now or earlier.
func (l *Lab) seconds() float64 {
	seconds := each(slices.Collect(maps.Keys(l.used)), func(s *Sample) float64 { return s.Seconds })
	slices.Sort(seconds) // so that the sum is the same every time
	sum := 0.0
	for _, s := range seconds {
		sum += s
	}
	return sum
}

func (l *Lab) runs(c Cell) int {
	if c.Runs > 0 {
		return c.Runs
	}
	return max(l.Runs, 1)
}

// Bounds on how long simulations run before their results are saved.
const chunkTime = 2 * time.Second

// complete simulates runs until a sample is large enough.
func (l *Lab) complete(ctx context.Context, c Cell, s *Sample, m *meter) error {
	_, seed := l.key(c)
	chunk := 16
	for s.Runs < l.runs(c) {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(chunk, l.runs(c)-s.Runs)
		began, base := time.Now(), m.state.Done
		results, err := logp.Broadcast(c.Spec, c.Net, logp.Runs{
			Runs: n, First: s.Runs, Seed: seed, Workers: l.Workers,
			Faults:   logp.Sampling{Count: c.Dead},
			Progress: func(done int) { m.at(base + int64(done)*c.cost()) },
		})
		if err != nil {
			return fmt.Errorf("%s, %s: %w", c.Spec.Tree, c.Spec.Correction, err)
		}
		took := time.Since(began)
		s.add(results, c.Net.P)
		s.Seconds += took.Seconds()
		m.state.Done = base + int64(n)*c.cost()
		if err := l.save(c, s); err != nil {
			return err
		}
		switch {
		case took < chunkTime/2:
			chunk *= 2
		case took > chunkTime:
			chunk = max(chunk/2, 1)
		}
	}
	return nil
}

// cost estimates the time of a run of a cell, in microseconds.
func (c Cell) cost() int64 {
	perProcess := 300 // nanoseconds
	switch _, gossip, _ := c.Spec.Gossips(); {
	case gossip:
		perProcess = 800
	case c.Spec.Synchronized && c.Spec.Correction == "checked":
		perProcess = 20
	}
	if name, _, _ := broadcast.ParseCorrection(c.Spec.Correction); name == "failure-proof" {
		perProcess = perProcess * 3 / 2
	}
	return int64(c.Net.P*perProcess/1000) + 1
}

// meter reports progress.
type meter struct {
	progress func(Progress)
	state    Progress
}

func (m *meter) at(done int64) {
	if m.progress != nil {
		p := m.state
		p.Done = done
		m.progress(p)
	}
}

// load returns the sample of a cell from earlier runs.
func (l *Lab) load(c Cell) (*Sample, error) {
	name, _ := l.key(c)
	if s := l.cells[name]; s != nil {
		return s, nil
	}
	kept := keptCell{Sample: newSample()}
	err := l.read(name, &kept, func() error {
		if c.Runs = 0; kept.Cell != c {
			return errors.New("it is about another cell")
		}
		return kept.check()
	})
	if err != nil {
		return nil, err
	}
	if l.cells == nil {
		l.cells = make(map[string]*Sample)
	}
	l.cells[name] = kept.Sample
	return kept.Sample, nil
}

// keptCell is the content of a cell's file: the sample and, for people, the configuration.
type keptCell struct {
	Cell Cell `json:"cell"`
	*Sample
}

// save saves the sample of a cell.
func (l *Lab) save(c Cell, s *Sample) error {
	name, _ := l.key(c)
	return l.write(name, keptCell{c, s})
}

func (l *Lab) path(name string) string { return filepath.Join(l.Dir, name+".json") }

// read reads what earlier runs saved under a name, and checks it. If there is nothing, value stays as it is.
func (l *Lab) read(name string, value any, check func() error) error {
	if l.Dir == "" {
		return nil
	}
	err := readJSON(l.path(name), value, check)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// write saves a value under a name.
func (l *Lab) write(name string, value any) error {
	if l.Dir == "" {
		return nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return writeFile(l.path(name), text)
}

// readJSON reads a value from a regular file and checks it. It refuses anything else than a regular file.
func readJSON(path string, value any, check func() error) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file; allowed: what an earlier run left, or nothing", path)
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, value)
	}
	if err == nil {
		err = check()
	}
	if err != nil {
		return fmt.Errorf("%s: %w; allowed: what an earlier run left, or nothing", path, err)
	}
	return nil
}

// writeFile replaces a file as a whole or not at all.
func writeFile(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", path, err)
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", path, errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

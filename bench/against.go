package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coppice-go/coppice/bench/loop"
)

// other is Coppice at another commit.
type other struct {
	commit      string
	launcher    program
	coppiceLoop program
	mode        string // of coppiceloop
	old         bool   // it uses its own operations, in mode Plain: it cannot build today's
}

// todays are the folders that measure: they replace the commit's own, so that both sides are measured
// alike. If the public API has changed too much for the operations, only the loop does.
var todays = [][]string{{"bench/loop", "bench/ops", "bench/coppiceloop"}, {"bench/loop"}}

// buildOther builds a commit as it is in git.
func buildOther(ctx context.Context, dir, commit string, plain bool) (*other, error) {
	root, err := moduleDir(ctx)
	if err != nil {
		return nil, err
	}
	short, err := output(ctx, root, "git", "rev-parse", "--short", "--verify", "--quiet", commit+"^{commit}")
	if err != nil {
		return nil, fmt.Errorf("no commit %q in this repository", commit)
	}
	archive, err := output(ctx, root, "git", "archive", string(bytes.TrimSpace(short)))
	if err != nil {
		return nil, err
	}
	for i, folders := range todays {
		source, bin := filepath.Join(dir, fmt.Sprintf("source%d", i)), filepath.Join(dir, fmt.Sprintf("other%d", i))
		c := &other{commit: string(bytes.TrimSpace(short)), mode: "replay", old: i > 0}
		if plain || c.old {
			c.mode = "plain"
		}
		err := errors.Join(os.Mkdir(bin, 0o700), unpack(archive, source), overlay(root, source, folders))
		if err != nil {
			return nil, err
		}
		c.coppiceLoop = goBuild(ctx, source, bin, "bench/coppiceloop")
		if c.coppiceLoop.err == nil { // the launcher has benchmarks, too
			c.launcher = goBuild(ctx, source, bin, "cmd/coppice")
		}
		if err := errors.Join(c.coppiceLoop.err, c.launcher.err); err == nil || i == len(todays)-1 {
			return c, err
		}
	}
	panic("unreachable")
}

func (c *other) String() string {
	if c.old {
		return c.commit + ", its own operations, mode plain"
	}
	return c.commit + ", mode " + c.mode
}

// moduleDir returns the directory of this module.
func moduleDir(ctx context.Context) (string, error) {
	out, err := output(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}", module)
	return string(bytes.TrimSpace(out)), err
}

// output runs a command and returns what it prints.
func output(ctx context.Context, dir string, words ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir = dir
	var diagnosis bytes.Buffer
	cmd.Stderr = &diagnosis
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %s", strings.Join(words[:2], " "), loop.Gist(diagnosis.Bytes(), err))
	}
	return out, nil
}

// unpack writes the files of an archive that git has made.
func unpack(archive []byte, dir string) error {
	files := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := files.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg || !filepath.IsLocal(h.Name) {
			continue
		}
		path := filepath.Join(dir, h.Name)
		text, err := io.ReadAll(files)
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, text, 0o600))
		}
		if err != nil {
			return err
		}
	}
}

// overlay replaces folders of one tree by those of another.
func overlay(from, to string, folders []string) error {
	for _, folder := range folders {
		target := filepath.Join(to, folder)
		err := errors.Join(os.RemoveAll(target), os.CopyFS(target, os.DirFS(filepath.Join(from, folder))))
		if err != nil {
			return err
		}
	}
	return nil
}

// againstLines returns the lines that compare two commits of ours.
func (o options) againstLines() []line {
	if !o.collectives {
		return counted(o.ours(), coppiceOther, []int{2, 8, 16})
	}
	cells := collectives(false, false)
	for i := range cells {
		cells[i].ours, cells[i].theirs, cells[i].target = o.ours(), coppiceOther, target{}
	}
	return slices.DeleteFunc(cells, func(l line) bool { return !l.cell })
}

// ours returns the measured side: today's, as a user has it or in mode Plain, or with --of the other
// commit's.
func (o options) ours() side {
	switch {
	case o.of != "":
		return coppiceOther
	case o.plain:
		return coppiceUnix
	default:
		return coppiceReplay
	}
}

// versus formats both sides of two counts.
func versus(ours, theirs float64) string { return fmt.Sprintf("%.1f / %.1f", ours, theirs) }

// againstColumns are the columns of the table of two commits: times are medians, all other cells the
// least of the rounds.
var againstColumns = []column{
	"what", ">p", ">ours µs", ">theirs µs", ">ratio", "spread", ">CPU", "spread",
	">CPU µs", ">switches", ">involuntary", ">calls", ">all calls", ">sends", ">bytes", ">allocations",
}

func cpuOf(f figure) float64 { return f.Cost.CPU }

// againstRows returns the cells of the results, under againstColumns.
func againstRows(results []result) (rows [][]string) {
	for _, r := range results {
		row := []string{r.what, fmt.Sprint(r.p), micros(r.ours()), micros(r.theirs())}
		for _, of := range []func(figure) float64{medianOf, cpuOf} {
			middle, least, greatest := r.ratios(oursIn, of)
			if middle == 0 {
				row = append(row, dash, dash)
			} else {
				row = append(row, fmt.Sprintf("%.2f", middle), fmt.Sprintf("%.2f–%.2f", least, greatest))
			}
		}
		a, b := r.cost(oursIn), r.cost(theirsIn)
		rows = append(rows, append(row,
			versus(a.CPU, b.CPU), versus(a.Switches, b.Switches), versus(a.Involuntary, b.Involuntary),
			versus(a.Calls, b.Calls), versus(a.AllCalls, b.AllCalls), versus(a.Sends, b.Sends), versus(a.Bytes, b.Bytes),
			versus(a.Allocations, b.Allocations)))
	}
	return rows
}

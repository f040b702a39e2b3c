package tpch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-go/coppice"
)

// damages change the lines of a file, each of which ends with a newline.
var damages = []struct {
	name string
	do   func(lines []string) []string
	// In lineitem: query 1 cannot see it, since it takes lines in any order and reads nothing else.
	unseen bool
}{
	{"the last line without an end", func(l []string) []string {
		return change(l, -1, func(s string) string { return strings.TrimSuffix(s, "\n") })
	}, true},
	{"empty", func([]string) []string { return nil }, false},
	{"reversed", func(l []string) []string { slices.Reverse(l); return l }, true},
	{"a line missing", func(l []string) []string { i := middle(l); return slices.Delete(l, i, i+1) }, true},
	{"the first line missing", func(l []string) []string { return l[1:] }, true},
	{"a third missing", func(l []string) []string { return slices.Delete(l, len(l)/3, 2*len(l)/3) }, true},
	{"the last third missing", func(l []string) []string { return l[:2*len(l)/3] }, true},
	{"a line twice", func(l []string) []string { return slices.Insert(l, len(l)/2, l[len(l)/2]) }, true},
	{"the first line moved to the end", func(l []string) []string { return append(l[1:], l[0]) }, true},
	{"an empty line", func(l []string) []string { return slices.Insert(l, len(l)/2, "\n") }, false},
	{"half a line, and the end", func(l []string) []string {
		return change(l, len(l)/2, func(s string) string { return s[:len(s)/2] + "\n" })
	}, false},
	{"half a line, and the next", func(l []string) []string { return change(l, len(l)/2, func(s string) string { return s[:len(s)/2] }) }, false},
	{"half of the last line", func(l []string) []string { return change(l, -1, func(s string) string { return s[:len(s)/2] }) }, false},
	{"a field less", func(l []string) []string {
		return change(l, len(l)/2, func(s string) string { return s[strings.IndexByte(s, '|')+1:] })
	}, false},
	{"a field more", func(l []string) []string { return change(l, len(l)/2, func(s string) string { return "1|" + s }) }, false},
	{"a key that is no number", func(l []string) []string { return change(l, len(l)/2, func(s string) string { return "x" + s }) }, false},
	{"a key of 0", func(l []string) []string { return change(l, len(l)/2, withKey("0")) }, false},
	{"a negative key", func(l []string) []string { return change(l, len(l)/2, withKey("-1")) }, false},
	{"a great key", func(l []string) []string { return change(l, len(l)/2, withKey("99999999999999999999")) }, false},
	{"bytes 0 at the beginning", func(l []string) []string {
		return change(l, len(l)/2, func(s string) string { return "\x00\x00" + s[2:] })
	}, false},
	{"bytes 0 in the last field", func(l []string) []string {
		return change(l, len(l)/2, func(s string) string { return s[:len(s)-2] + "\x00|\n" })
	}, false},
	{"lines that end in CRLF", func(l []string) []string {
		for i := range l {
			l = change(l, i, func(s string) string { return strings.TrimSuffix(s, "\n") + "\r\n" })
		}
		return l
	}, false},
	{"a mark of the order of bytes", func(l []string) []string { return change(l, 0, func(s string) string { return "\ufeff" + s }) }, false},
}

// middle returns a line in the middle, which is not the last of an order with several: no check would miss
// that one.
func middle(lines []string) int {
	i := len(lines) / 2
	for key, _, _ := strings.Cut(lines[i], "|"); i > 0 && strings.HasPrefix(lines[i-1], key+"|"); {
		i--
	}
	return i
}

// change changes a line, −1: the last.
func change(lines []string, i int, to func(string) string) []string {
	if i < 0 {
		i += len(lines)
	}
	lines[i] = to(lines[i])
	return lines
}

// withKey returns a function that replaces a line's key.
func withKey(key string) func(string) string {
	return func(s string) string { return key + s[strings.IndexByte(s, '|'):] }
}

// ask answers a query from files, or returns the error that reports damage.
func ask(t *testing.T, dir string, q Query, n int) (csv string, wrong error) {
	t.Helper()
	f, err := OpenFiles(dir, q.Columns())
	if err != nil {
		return "", err
	}
	defer f.Close()
	var mu sync.Mutex
	err = (&coppice.Job{Local: n}).Run(t.Context(), func(ctx context.Context, task *coppice.Task) error {
		tables, err := f.Load(ctx, task.Rank(), task.Size(), q.Columns())
		if err == nil {
			err = f.Check(ctx, task, tables)
		}
		var a Answer
		if err == nil {
			a, err = q.Ask(ctx, task, tables, f.Bounds(), func(string) {})
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil && wrong == nil:
			wrong = err
		case task.Rank() == 0:
			csv = a.CSV()
		}
		return err
	})
	if err != nil && wrong == nil {
		t.Fatal(err)
	}
	return csv, wrong
}

// TestDamagedFilesGiveNoAnswer: damage in any file is reported in one line, with the file's name, for every
// query that reads it. damages says what cannot be seen.
func TestDamagedFilesGiveNoAnswer(t *testing.T) {
	tables, err := Generated(0.0004).Load(t.Context(), 0, 1, allColumns)
	if err != nil {
		t.Fatal(err)
	}
	tables.Orders.Priorities = make([]int32, len(tables.Orders.Keys))
	whole := texts(tables)
	for _, c := range []struct {
		query Query
		files []string
	}{
		{officialQ1, []string{"lineitem.tbl"}},
		{officialQ3, []string{"customer.tbl", "orders.tbl", "lineitem.tbl"}},
		{officialQ5, []string{"customer.tbl", "supplier.tbl", "orders.tbl", "lineitem.tbl"}},
	} {
		right, wrong := ask(t, written(t, whole), c.query, 2)
		if wrong != nil {
			t.Fatal(wrong)
		}
		for _, file := range c.files {
			for i, d := range damages {
				files := maps.Clone(whole)
				files[file] = strings.Join(d.do(slices.Collect(strings.Lines(whole[file]))), "")
				dir := written(t, files)
				got, wrong := ask(t, dir, c.query, 1+i%3)
				name := fmt.Sprintf("%T, %s, %s", c.query, file, d.name)
				switch harmless := i == 0; {
				case harmless && (wrong != nil || got != right):
					t.Errorf("%s: %v, %s", name, wrong, got)
				case harmless || d.unseen && len(c.files) == 1:
				case wrong == nil:
					t.Errorf("%s: an answer", name)
				case !strings.Contains(wrong.Error(), dir+"/") || strings.ContainsAny(wrong.Error(), "\n\x00"):
					t.Errorf("%s: %v", name, wrong)
				}
			}
		}
	}
}

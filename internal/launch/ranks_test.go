//go:build unix

package launch

import (
	"slices"
	"strings"
	"testing"
)

func TestRanksAreReadAndWritten(t *testing.T) {
	for _, c := range []struct {
		text    string
		want    []int
		written string
	}{
		{"0", []int{0}, "0"},
		{"0,3-5", []int{0, 3, 4, 5}, "0, 3-5"},
		{"5,3-4,3", []int{3, 4, 5}, "3-5"},
		{"1-2,9", []int{1, 2, 9}, "1, 2, 9"},
		{"0-9", []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, "0-9"},
	} {
		got, err := ParseRanks(c.text, 10)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v (%v), want %v", c.text, got, err, c.want)
		}
		if written := rankList(got); written != c.written {
			t.Errorf("%v: written as %q, want %q", got, written, c.written)
		}
	}
	for _, text := range []string{"", ",", "1,", "-1", "1-", "3-1", "x", "1..2", "10", "9-10", " 1", "99999999999999999999"} {
		if got, err := ParseRanks(text, 10); err == nil || !strings.Contains(err.Error(), "; allowed: ") {
			t.Errorf("%q: read as %v, error %v", text, got, err)
		}
	}
}

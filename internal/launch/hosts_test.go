//go:build unix

package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestHostsAreRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte("# ours\nnode1:4\n\n  node2 # old\nme@node3:2"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text string
		want []Host
	}{
		{"a", []Host{{"a", 1}}},
		{"a:4,b:4", []Host{{"a", 4}, {"b", 4}}},
		{"user@a.example:12", []Host{{"user@a.example", 12}}},
		{"[fd00::2]:3,me@[fd00::3],[fe80::1%eth0]", []Host{{"fd00::2", 3}, {"me@fd00::3", 1}, {"fe80::1%eth0", 1}}},
		{"@" + file, []Host{{"node1", 4}, {"node2", 1}, {"me@node3", 2}}},
	} {
		if got, err := ParseHosts(c.text); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v (%v), want %v", c.text, got, err, c.want)
		}
	}
}

func TestOtherHostsAreRefused(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("# nobody\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"", ",", "a,,b", "a:0", "a:-1", "a:x", "a:", ":4", "a:4:4", "a,a", "a:1,a:2", "-oProxyCommand=x", "a b", "a;b", "$(a)",
		"fd00::2", "[fd00::2", "[fd00::2]4", "[fd00::2]:", "[fd00::2]:0", "me[fd00::2]", "[10.0.0.1]", "[]", "[fd00::2],[fd00::2]:2", "-o@[fd00::2]",
		"@" + empty, "@" + empty + ".not", "@" + filepath.Dir(empty), "@",
	} {
		got, err := ParseHosts(text)
		if err == nil || !strings.Contains(err.Error(), "; allowed: ") {
			t.Errorf("%q: read as %v, error %v", text, got, err)
		}
	}
}

func TestHostsAreFilledInOrder(t *testing.T) {
	p, err := New(Config{N: 5, Program: "true", Hosts: []Host{{"a", 2}, {"b", 2}, {"c", 9}, {"d", 1}}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(p.shares), "[{a [0 1]} {b [2 3]} {c [4]}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

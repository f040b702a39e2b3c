package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// completion is the script for a shell, in a file.
func completion(t *testing.T, shell string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), shell)
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if exit := run([]string{"completion", shell}, file, os.Stderr); exit != 0 {
		t.Fatalf("coppice completion %s: exit code %d", shell, exit)
	}
	return path
}

// completions are what shells propose for the last word.
var completions = []struct{ words, want string }{
	{"coppice si", "sim"},
	{"coppice t", "tpch tree tune"},
	{"coppice do", "doctor"},
	{"coppice doctor --int", "--interface"},
	{"coppice --v", "--version"},
	{"coppice bench mem", "membership"},
	{"coppice tpch d", "dbgen"},
	{"coppice tpch --seg", "--segment"},
	{"coppice bench membership --fan", "--fanout"},
	{"coppice bench membership --wa", ""},
	{"coppice bench --wa", "--warmup"},
	{"coppice bench --op barrier --wa", "--warmup"},
	{"coppice sim --sync o", "overlapped"},
	{"coppice sim --sync = o", "overlapped"}, // = is a word of its own, as it is to bash
	{"coppice sim --first l", "left"},
	{"coppice completion f", "fish"},
	{"coppice help rep", "reproduce"},
	{"coppice run --res", "--respawn --respawn-max --restart --resume"},
	{"coppice run -- --res", ""}, // a flag of the program
	{"coppice run --det", "--detach"},
	{"coppice run --kee", ""}, // what people do not use
	{"coppice at", "attach"},
	{"coppice attach --fr", "--from-start"},
}

// completes checks what a shell proposes.
func completes(t *testing.T, shell string, proposed func(path, script, words string) *exec.Cmd) {
	t.Helper()
	path, err := exec.LookPath(shell)
	if err != nil {
		t.Skipf("runs where there is %s; on Debian: bash .ci/install-shells", shell)
	}
	script := completion(t, shell)
	for _, c := range completions {
		out, err := proposed(path, script, c.words).CombinedOutput()
		got := strings.Fields(string(out))
		slices.Sort(got)
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, %v; want %q", c.words, got, err, c.want)
		}
	}
}

func TestBashCompletes(t *testing.T) {
	completes(t, "bash", func(path, script, words string) *exec.Cmd {
		call := exec.Command(path, "--norc", "-c", `source "$1"; shift
			compopt() { :; } # which works while bash itself completes
			COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _coppice; printf '%s\n' "${COMPREPLY[@]}"`, "bash", script)
		call.Args = append(call.Args, strings.Fields(words)...)
		return call
	})
}

func TestFishCompletes(t *testing.T) {
	completes(t, "fish", func(path, script, words string) *exec.Cmd {
		words = strings.ReplaceAll(words, " = ", "=")
		return exec.Command(path, "--no-config", "-c", `source $argv[1]
			complete -C $argv[2] | string split -f 1 \t | string replace -r '^--sync=' ''; true`, script, words)
	})
}

// TestShellsReadTheirCompletion: whatever shell is there finds no mistake in its script.
func TestShellsReadTheirCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script := completion(t, shell)
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"membership", "processes", "overlapped"} {
			if !strings.Contains(string(text), word) {
				t.Errorf("%s: no %s in the script", shell, word)
			}
		}
		for _, word := range []string{"bench-process", "doctor-process", "agent"} { // what people do not call
			if strings.Contains(string(text), word+"'") {
				t.Errorf("%s: %s in the script", shell, word)
			}
		}
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("%s is not installed: its script is not checked; on Debian: bash .ci/install-shells", shell)
			continue
		}
		if out, err := exec.Command(shell, "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s -n: %v: %s", shell, err, out)
		}
	}
}

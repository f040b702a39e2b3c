package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/internal/posix"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	posix.DefaultInterrupt()
	extent.SideBySide(4) // jobs of theirs wait
	commands := map[string]func(){"coppice": main}
	for name, tool := range tools {
		if _, err := exec.LookPath(name); err != nil || name == filepath.Base(os.Args[0]) {
			commands[name] = tool
		}
	}
	testscript.Main(m, commands)
}

// The tools that the scripts start are this binary too, by its name, where there
// are none: a newcomer may have Go and a shell and nothing else.
var tools = map[string]func(){
	"echo": func() { fmt.Println(strings.Join(os.Args[1:], " ")) },
	"sleep": func() {
		d, err := time.ParseDuration(os.Args[1] + "s")
		if err != nil {
			panic(err)
		}
		time.Sleep(d)
	},
	"true": func() {},
}

// The scripts in testdata/script are the contract of the command, by example.
func TestScripts(t *testing.T) {
	extent.Few(t, "lines of scripts that begin with [full]")
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Condition: func(name string) (bool, error) {
			if name != "full" {
				return false, fmt.Errorf("condition %q; allowed: full", name)
			}
			return extent.Full(), nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"refused":  refused,
			"keys":     keys,
			"timeless": timeless,
			"replays":  replays,
			"recorded": recorded,
		},
	})
}

// refused TEXT ARGS… runs coppice with ARGS and wants exit code 2, nothing on
// standard output, and exactly one line on standard error, which is TEXT. A *
// stands for any words: those that the libraries choose.
func refused(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: refused TEXT ARGS…")
	}
	var exit *exec.ExitError
	if err := ts.Exec("coppice", args[1:]...); !errors.As(err, &exit) || exit.ExitCode() != exitInput {
		ts.Fatalf("coppice %q: %v, want exit code %d", args[1:], err, exitInput)
	}
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("coppice %q: standard output %q, want none", args[1:], out)
	}
	line := regexp.MustCompile("^coppice: " + strings.ReplaceAll(regexp.QuoteMeta(args[0]), `\*`, ".*") + "\n$")
	if got := ts.ReadFile("stderr"); !line.MatchString(got) {
		ts.Fatalf("coppice %q:\n got %q\nwant %q", args[1:], got, args[0])
	}
}

// keys PATH… wants standard output to be one JSON document that has all these
// keys; a path is keys joined by points, 0 the first of an array.
func keys(ts *testscript.TestScript, neg bool, args []string) {
	var document any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &document))
	for _, path := range args {
		at, found := document, true
		for _, key := range strings.Split(path, ".") {
			if list, ok := at.([]any); ok && key == "0" && len(list) > 0 {
				at = list[0]
				continue
			}
			object, _ := at.(map[string]any)
			if at, found = object[key]; !found {
				break
			}
		}
		if found == neg {
			ts.Fatalf("key %s: found %v", path, found)
		}
	}
}

// replays COMMAND… takes the seed of a violation from the JSON on standard
// output and wants it to come again as the only run.
func replays(ts *testscript.TestScript, neg bool, args []string) {
	var report chaosReport
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &report))
	first := report.Protocols[0]
	seed := strconv.FormatUint(*first.Seed, 10)
	if err := ts.Exec(args[0], append(args[1:], "--runs", "1", "--json", "--seed", seed)...); (err == nil) != neg {
		ts.Fatalf("seed %s: %v", seed, err)
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &report))
	if again := report.Protocols[0]; again.Error != first.Error || again.Violations != 1 {
		ts.Fatalf("seed %s gives %q, want %q", seed, again.Error, first.Error)
	}
}

// timing matches the lines about time; seed those that name the seed, so that
// what is left differs only if the runs differ.
var (
	timing = regexp.MustCompile(`(?m)^.*"(seconds|messages_per_second)":.*\n|^.* messages in .* a second\n`)
	seed   = regexp.MustCompile(`(?m)^.*"seed":.*\n`)
)

// timeless FILE takes the lines about time out of a file, and those that name
// the seed, and wants the former to be there.
func timeless(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: timeless FILE")
	}
	text := ts.ReadFile(args[0])
	if !timing.MatchString(text) {
		ts.Fatalf("%s says nothing about time:\n%s", args[0], text)
	}
	text = seed.ReplaceAllString(timing.ReplaceAllString(text, ""), "")
	ts.Check(writeFile(ts.MkAbs(args[0]), text))
}

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// TestProgressIsPlainLinesWithoutATerminal: with how much is done and how long the rest takes; a short run has none.
func TestProgressIsPlainLinesWithoutATerminal(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c := newConsole(file, file)
	_, stop := c.schedules("checked", 0, 2, 100)
	stop()
	if text, _ := os.ReadFile(file.Name()); len(text) > 0 {
		t.Errorf("a short run: %q", text)
	}
	done, text := counted("schedules", 100)
	done(40)
	stop = c.progress(time.Millisecond, text)
	line := regexp.MustCompile(`^coppice: 40 of 100 schedules, left: \d+s\n`)
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		text, _ := os.ReadFile(file.Name())
		if line.Match(text) {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("%q, want %v", text, line)
		}
	}
	stop()
}

package main

import (
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// checkout is the root of the repository: where the reader of a page begins.
const checkout = "../.."

// markup matches what a picture has around its texts.
var markup = regexp.MustCompile("<[^>]*>")

// recorded wants every line that a demo has printed, figures aside, to be in the picture of the README.
func recorded(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: recorded")
	}
	picture, err := os.ReadFile(filepath.Join(checkout, "docs/images/demo.svg"))
	ts.Check(err)
	if len(picture) > 1<<20 {
		ts.Fatalf("%d bytes, more than a megabyte", len(picture))
	}
	var shown []string
	for line := range strings.Lines(string(picture)) {
		shown = append(shown, withoutFigures(html.UnescapeString(markup.ReplaceAllString(line, ""))))
	}
	for line := range strings.Lines(ts.ReadFile("stderr") + ts.ReadFile("stdout")) {
		if line = withoutFigures(line); line != "" && !slices.Contains(shown, line) {
			ts.Fatalf("%q is not in docs/images/demo.svg: record it again (TestRecordDemo)", line)
		}
	}
}

// withoutFigures leaves the words of a line.
func withoutFigures(line string) string {
	line = regexp.MustCompile(`[\d.]+|█+`).ReplaceAllString(line, "")
	line = regexp.MustCompile(`its task was at .*`).ReplaceAllString(line, "its task was at some point")
	return strings.Join(strings.Fields(line), " ")
}

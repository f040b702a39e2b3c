package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
)

// sinkTakes gives a sink whole lines.
func sinkTakes(t *testing.T, sink io.Writer, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if _, err := sink.Write([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
	}
}

// writeInPieces gives a sink lines in pieces, as they come.
func writeInPieces(t *testing.T, sink io.Writer, lines []string) {
	t.Helper()
	for text := strings.Join(lines, "\n") + "\n"; len(text) > 0; {
		piece := text[:min(7, len(text))]
		if n, err := sink.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
		text = text[len(piece):]
	}
}

// sinkRefuses checks that a sink takes none of some lines.
func sinkRefuses(t *testing.T, fresh func() io.Writer, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if _, err := fresh().Write([]byte(line + "\n")); err == nil {
			t.Errorf("%q: no error", line)
		}
	}
}

// isClosed tells whether a channel is, to which nobody sends.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// keysOf are those of a document.
func keysOf(t *testing.T, document any) (keys map[string]any) {
	t.Helper()
	text, err := json.Marshal(document)
	if err == nil {
		err = json.Unmarshal(text, &keys)
	}
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// rowsOf are the lines of a report, with one space between words.
func rowsOf(write func(*bufio.Writer)) (rows []string) {
	var text bytes.Buffer
	w := bufio.NewWriter(&text)
	write(w)
	w.Flush()
	for line := range strings.Lines(text.String()) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	return rows
}

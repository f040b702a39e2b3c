// Command wordcount counts the words of a file, and prints the most frequent ones. Each task counts the words of some lines, and sends the
// counts of each word to the task that its hash names. Once keeps what was read: a task that is run again counts the same
// lines, even if the file has changed.
//
//	go run ./cmd/coppice run -n 4 -- go run ./examples/wordcount README.md
//	go run ./examples/wordcount README.md
package main

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/coppice-go/coppice"
)

const shown = 10

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: wordcount FILE")
		os.Exit(2)
	}
	coppice.Main(func(ctx context.Context, t *coppice.Task) error {
		words, err := count(ctx, t, func() ([]byte, error) { return os.ReadFile(os.Args[1]) }, shown)
		for _, w := range words {
			fmt.Printf("%7d %s\n", w.Count, w.Word)
		}
		return err
	})
}

// word is a word and how often it occurs.
type word struct {
	Word  string
	Count int
}

// count returns, at task 0, the most frequent words of a text.
func count(ctx context.Context, t *coppice.Task, read func() ([]byte, error), most int) ([]word, error) {
	text, err := coppice.Once(ctx, t, func(context.Context) ([]byte, error) { return read() })
	if err != nil {
		return nil, err
	}
	parts := make([]map[string]int, t.Size())
	for i := range parts {
		parts[i] = map[string]int{}
	}
	for i, line := range strings.Split(string(text), "\n") {
		if i%t.Size() != t.Rank() {
			continue
		}
		for _, w := range strings.FieldsFunc(strings.ToLower(line), func(r rune) bool { return !unicode.IsLetter(r) }) {
			parts[owner(w, t.Size())][w]++
		}
	}
	got, err := coppice.AllToAll(ctx, t, parts) // the shuffle
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, part := range got {
		for w, n := range part {
			counts[w] += n
		}
	}
	mine := make([]word, 0, len(counts))
	for w, n := range counts {
		mine = append(mine, word{w, n})
	}
	all, err := coppice.Gather(ctx, t, first(mine, most))
	return first(slices.Concat(all...), most), err
}

// owner is the task that counts a word.
func owner(w string, tasks int) int {
	h := fnv.New32a()
	h.Write([]byte(w))
	return int(h.Sum32() % uint32(tasks))
}

// first sorts words, the most frequent ones first, and returns some.
func first(words []word, most int) []word {
	slices.SortFunc(words, func(a, b word) int { return cmp.Or(b.Count-a.Count, strings.Compare(a.Word, b.Word)) })
	return words[:min(most, len(words))]
}

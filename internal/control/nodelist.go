package control

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Lists of Slurm. Names of nodes are folded: node[1-4,7],gpu01 stands for node1, node2, node3, node4, node7 and gpu01; a
// number has at least as many digits as the first one of its range (scontrol(1), show hostnames). Numbers of tasks are
// folded, too: 4(x2),3 stands for 4, 4, 3 (srun(1), SLURM_STEP_TASKS_PER_NODE).

// nodeListExample is what errors show.
const nodeListExample = "names such as node[1-4,7],gpu01"

// nodesMax bounds the nodes of a list, so that numbers of them do not overflow.
const nodesMax = 1 << 20

// expandNodes returns the first nodes that a list names, up to a limit, and how many it names in all.
func expandNodes(list string, most int) (first []string, count int, err error) {
	for _, word := range splitNodes(list) {
		names, n, err := expandWord(word, most)
		if err != nil {
			return nil, 0, err
		}
		if count += n; count > nodesMax {
			return nil, 0, errTooMany
		}
		first = append(first, names[:min(len(names), most-len(first))]...)
	}
	return first, count, nil
}

var errTooMany = fmt.Errorf("more than %d nodes", nodesMax)

// splitNodes splits a list at the commas that are not in brackets.
func splitNodes(list string) (words []string) {
	begin, inside := 0, false
	for i, c := range list {
		switch {
		case c == '[':
			inside = true
		case c == ']':
			inside = false
		case c == ',' && !inside:
			words = append(words, list[begin:i])
			begin = i + 1
		}
	}
	return append(words, list[begin:])
}

// expandWord returns the first names for which a word of a list stands, up to a limit, and for how many it stands.
func expandWord(word string, most int) (names []string, count int, err error) {
	if word == "" {
		return nil, 0, errors.New("an empty name")
	}
	names, count = []string{""}, 1
	for rest := word; rest != ""; {
		text, after, open := strings.Cut(rest, "[")
		if i := strings.IndexFunc(text, notInName); i >= 0 {
			return nil, 0, fmt.Errorf("%q in a name", text[i:i+1])
		}
		numbers, n := []string{""}, 1
		if open {
			inside, outside, closed := strings.Cut(after, "]")
			if !closed {
				return nil, 0, errors.New("a bracket without its end")
			}
			if numbers, n, err = expandNumbers(inside, most); err != nil {
				return nil, 0, err
			}
			after = outside
		}
		if count *= n; count > nodesMax {
			return nil, 0, errTooMany
		}
		var longer []string
		for _, name := range names {
			for _, number := range numbers[:min(len(numbers), most-len(longer))] {
				longer = append(longer, name+text+number)
			}
		}
		names, rest = longer, after
	}
	return names, count, nil
}

// expandNumbers returns the first numbers of what is in brackets, up to a limit, and how many there are.
func expandNumbers(list string, most int) (numbers []string, count int, err error) {
	for text := range strings.SplitSeq(list, ",") {
		first, last, several := strings.Cut(text, "-")
		if !several {
			last = first
		}
		low, err1 := parseDigits(first)
		high, err2 := parseDigits(last)
		if err1 != nil || err2 != nil || low > high {
			return nil, 0, fmt.Errorf("[%s]", text)
		}
		if count += high - low + 1; count > nodesMax {
			return nil, 0, errTooMany
		}
		for n := low; n <= high && len(numbers) < most; n++ {
			numbers = append(numbers, fmt.Sprintf("%0*d", len(first), n))
		}
	}
	return numbers, count, nil
}

// notInName reports whether a name of a node cannot have a character.
func notInName(c rune) bool {
	return !(c == '-' || c == '_' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z')
}

// digitsMax is how many digits a number of a list may have.
const digitsMax = 9

// parseDigits parses a number that has digits only.
func parseDigits(text string) (int, error) {
	if len(text) > digitsMax || strings.IndexFunc(text, func(c rune) bool { return c < '0' || c > '9' }) >= 0 {
		return 0, strconv.ErrSyntax
	}
	return strconv.Atoi(text)
}

// tasksOfNodes returns, for a list such as 4(x2),3, how many tasks a node (counted from 0) has, how many nodes there are,
// and how many tasks they have together.
func tasksOfNodes(list string, node int) (here, nodes, tasks int, err error) {
	for part := range strings.SplitSeq(list, ",") {
		text, repeat, several := strings.Cut(part, "(x")
		n, err := parseDigits(text)
		times := 1
		if several && err == nil {
			if repeat, several = strings.CutSuffix(repeat, ")"); several {
				times, err = parseDigits(repeat)
			} else {
				err = strconv.ErrSyntax
			}
		}
		if err != nil || n < 1 || times < 1 || n > nodesMax || times > nodesMax {
			return 0, 0, 0, fmt.Errorf("%q", part)
		}
		if nodes <= node && node < nodes+times {
			here = n
		}
		nodes, tasks = nodes+times, tasks+n*times
		if tasks > SizeMax {
			return 0, 0, 0, fmt.Errorf("more than %d tasks", SizeMax)
		}
	}
	return here, nodes, tasks, nil
}

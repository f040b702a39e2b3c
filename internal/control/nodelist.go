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
const nodesMax = SizeMax

// expandNodes returns the first nodes that a list names, up to a limit, and how many it names in all.
func expandNodes(list string, most int) (first []string, count int, err error) {
	for _, word := range splitNodes(list) {
		parts, n, err := parseNodes(word)
		if err != nil {
			return nil, 0, err
		}
		if count += n; count > nodesMax {
			return nil, 0, fmt.Errorf("more than %d nodes", nodesMax)
		}
		first = appendNodes(first, most, "", parts)
	}
	return first, count, nil
}

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

// nodePart is a piece of a name, followed by one of some numbers, or by nothing if there are none.
type nodePart struct {
	text   string
	ranges []nodeRange
}

// nodeRange is numbers from low to high, with a least number of digits.
type nodeRange struct{ low, high, digits int }

// parseNodes parses a word of a list, and returns how many names it stands for.
func parseNodes(word string) (parts []nodePart, count int, err error) {
	count = 1
	for rest := word; rest != ""; {
		text, after, open := strings.Cut(rest, "[")
		if i := strings.IndexFunc(text, notInName); i >= 0 {
			return nil, 0, fmt.Errorf("%q in a name", text[i:i+1])
		}
		part := nodePart{text: text}
		if open {
			inside, outside, closed := strings.Cut(after, "]")
			if !closed {
				return nil, 0, errors.New("a bracket without its end")
			}
			sum := 0
			for text := range strings.SplitSeq(inside, ",") {
				r, err := parseRange(text)
				if err != nil {
					return nil, 0, err
				}
				part.ranges = append(part.ranges, r)
				if sum += r.high - r.low + 1; sum > nodesMax {
					return nil, 0, fmt.Errorf("more than %d nodes", nodesMax)
				}
			}
			if count *= sum; count > nodesMax {
				return nil, 0, fmt.Errorf("more than %d nodes", nodesMax)
			}
			after = outside
		}
		parts, rest = append(parts, part), after
	}
	if parts == nil {
		return nil, 0, errors.New("an empty name")
	}
	return parts, count, nil
}

// notInName reports whether a name of a node cannot have a character.
func notInName(c rune) bool {
	return !(c == '-' || c == '_' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z')
}

func parseRange(text string) (r nodeRange, err error) {
	low, high, several := strings.Cut(text, "-")
	if !several {
		high = low
	}
	if r.low, err = parseDigits(low); err == nil {
		r.high, err = parseDigits(high)
	}
	r.digits = len(low)
	if err != nil || r.low > r.high {
		return r, fmt.Errorf("[%s]", text)
	}
	return r, nil
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

// appendNodes appends the names that begin with a prefix and continue with the parts, up to a limit.
func appendNodes(names []string, most int, prefix string, parts []nodePart) []string {
	if len(names) >= most {
		return names
	}
	if len(parts) == 0 {
		return append(names, prefix)
	}
	prefix += parts[0].text
	if parts[0].ranges == nil {
		return appendNodes(names, most, prefix, parts[1:])
	}
	for _, r := range parts[0].ranges {
		for n := r.low; n <= r.high && len(names) < most; n++ {
			names = appendNodes(names, most, fmt.Sprintf("%s%0*d", prefix, r.digits, n), parts[1:])
		}
	}
	return names
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
		if err != nil || n < 1 || times < 1 || n > SizeMax || times > nodesMax {
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

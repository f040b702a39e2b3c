package control

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kill says which task's process is killed, and when. If Op is empty, the launcher kills it After that
// time from the start. Otherwise the process that owns the task
// kills itself, once per job, when the task begins its Seq-th operation of that
// name (from 1); Step > 0: at the Step-th Receive or Action of that operation;
// Half: in the middle of that write.
type Kill struct {
	Task      int
	After     time.Duration
	Op        string
	Seq, Step int
	Half      bool
}

const killForms = "TASK@WHEN with WHEN a duration (150ms), OP#SEQ (reduce#2), OP#SEQ/STEP (reduce#2/3) or OP#SEQ/STEP+half"

// ParseKill reads TASK@WHEN.
func ParseKill(text string) (Kill, error) {
	malformed := fmt.Errorf("kill %q; allowed: %s", text, killForms)
	task, when, ok := strings.Cut(text, "@")
	if !ok {
		return Kill{}, malformed
	}
	k := Kill{}
	if k.Task, ok = ParseCount(task, 0); !ok {
		return Kill{}, malformed
	}
	op, where, byOp := strings.Cut(when, "#")
	if !byOp {
		after, err := time.ParseDuration(when)
		if err != nil || after < 0 {
			return Kill{}, malformed
		}
		k.After = after
		return k, nil
	}
	seq, step, byStep := strings.Cut(where, "/")
	if k.Op = op; op == "" {
		return Kill{}, malformed
	} else if !slices.Contains(Operations, op) {
		return Kill{}, fmt.Errorf("kill %q: operation %q; allowed: %s", text, op, strings.Join(Operations, ", "))
	}
	if k.Seq, ok = ParseCount(seq, 1); !ok {
		return Kill{}, malformed
	}
	if !byStep {
		return k, nil
	}
	step, k.Half = strings.CutSuffix(step, "+half")
	if k.Step, ok = ParseCount(step, 1); !ok {
		return Kill{}, malformed
	}
	return k, nil
}

// ParseCount reads a number in plain digits that is not below least.
func ParseCount(text string, least int) (n int, ok bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= least
}

// Operations are the names of the operations at which a kill point may be.
var Operations = []string{
	"barrier", "broadcast", "scatter", "gather", "allgather", "alltoall",
	"reduce", "allreduce", "scan", "exscan", "reducescatter", "send", "recv", "split", "agree", "save", "once",
}

// String writes what ParseKill reads.
func (k Kill) String() string {
	if k.Op == "" {
		return fmt.Sprintf("%d@%v", k.Task, k.After)
	}
	text := fmt.Sprintf("%d@%s#%d", k.Task, k.Op, k.Seq)
	if k.Step > 0 {
		text += "/" + strconv.Itoa(k.Step)
	}
	if k.Half {
		text += "+half"
	}
	return text
}

// MarshalText writes what ParseKill reads.
func (k Kill) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText is ParseKill.
func (k *Kill) UnmarshalText(text []byte) (err error) {
	*k, err = ParseKill(string(text))
	return err
}

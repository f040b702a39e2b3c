package hosts

import (
	"bytes"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestHostsGetEachByteOnce: a value goes to each other host once, however many tasks that has; in an all-reduce there and back.
func TestHostsGetEachByteOnce(t *testing.T) {
	t.Parallel()
	l, n := newDoctorsLab(t)
	const mebibytes, hosts = 16, 4
	for _, c := range []struct {
		name  string
		each  []int // tasks on each host
		times float64
	}{
		{"broadcast", []int{2, 2, 2, 2}, hosts - 1},
		{"broadcast", []int{3, 1, 3, 4}, hosts - 1},
		{"allreduce", []int{2, 2, 2, 2}, 2 * (hosts - 1)},
		{"allreducefunc", []int{3, 3, 3, 3}, 2 * (hosts - 1)}, // commutative: in order it is twice as much
	} {
		name, times := fmt.Sprint(c.name, " ", c.each), c.times
		var words []string
		for i, n := range c.each {
			words = append(words, fmt.Sprintf("host%d:%d", i, n))
		}
		var r report
		before := n.sent(t)
		exit := l.calls(t, n, "", &r, "run", "--json", "--timeout", "1m", "--hosts", strings.Join(words, ","), "--", "program", programWord, c.name, strconv.Itoa(mebibytes))
		if exit != 0 || len(r.evicted()) > 0 {
			t.Fatalf("%s: exit code %d, %+v", name, exit, r)
		}
		ratio := (n.sent(t) - before) / (times * (mebibytes << 20))
		t.Logf("%s: %.3f times the value's bytes for each of %v ways", name, ratio, times)
		if ratio < 1 || ratio > 1.15 { // frames, TLS and TCP need a few per cent, the start and the end some KiB
			t.Errorf("%s: the hosts have sent %.2f times what is needed", name, ratio)
		}
	}
}

// sent returns how many bytes the hosts have sent to each other and to the launcher.
func (n *hostNetwork) sent(t *testing.T) (total float64) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command("cat", "/proc/net/dev")
	cmd.Stdout = &out
	if err := n.router.Start(cmd); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for line := range strings.Lines(out.String()) {
		words := strings.Fields(line) // h0: and what came: bytes, packets …
		if len(words) < 2 || words[0][0] != 'h' {
			continue
		}
		bytes, err := strconv.ParseFloat(words[1], 64)
		if err != nil {
			t.Fatalf("%v in %s", err, out.String())
		}
		total += bytes
	}
	return total
}

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
	const mebibytes, hosts, each = 16, 4, 2
	var words []string
	for i := range hosts {
		words = append(words, fmt.Sprintf("host%d:%d", i, each))
	}
	for name, times := range map[string]float64{"broadcast": hosts - 1, "allreduce": 2 * (hosts - 1)} {
		var r report
		before := n.sent(t)
		exit := l.calls(t, n, "", &r, "run", "--json", "--timeout", "1m", "--hosts", strings.Join(words, ","), "--", "program", programWord, name, strconv.Itoa(mebibytes))
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

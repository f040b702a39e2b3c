package clock_test

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/coppice-go/coppice/bench/clock"
)

// Another process reads the clock between two readings of ours.
func TestAllProcessesReadTheSameClock(t *testing.T) {
	const asked = "CLOCK_TEST_ASKED"
	if os.Getenv(asked) != "" {
		os.Stdout.WriteString(strconv.FormatInt(clock.Now(), 10))
		os.Exit(0)
	}
	before := clock.Now()
	child := exec.Command(os.Args[0], "-test.run=^TestAllProcessesReadTheSameClock$")
	child.Env = append(os.Environ(), asked+"=1")
	out, err := child.Output()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := strconv.ParseInt(string(out), 10, 64)
	if after := clock.Now(); err != nil || theirs <= before || theirs >= after {
		t.Errorf("theirs %d, %v; want between %d and %d", theirs, err, before, after)
	}
}

func TestNowGrowsWithTime(t *testing.T) {
	then := clock.Now()
	time.Sleep(5 * time.Millisecond)
	if d := time.Duration(clock.Now() - then); d < 5*time.Millisecond || d > time.Minute {
		t.Errorf("%v after 5ms", d)
	}
}

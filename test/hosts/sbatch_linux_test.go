package hosts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-go/coppice/test/program"
)

// batchJob is a job that sbatch has queued.
type batchJob struct {
	*job
	cluster *slurmCluster
	id      string
	output  string // file
}

// sbatch queues the example's script with the program of steps, which stores what it saves.
func (c *slurmCluster) sbatch(t *testing.T, lasts time.Duration) *batchJob {
	t.Helper()
	j, err := c.lab.newJob(t.Context(), c.hostNetwork)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(j.steps)
	text, err := os.ReadFile("../../examples/slurm/coppice.sbatch")
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "coppice.sbatch") // each host has its own /tmp, and the repository may be in that of this machine
	if err := os.WriteFile(script, text, 0o700); err != nil {
		t.Fatal(err)
	}
	words := append([]string{"--parsable", "--output", filepath.Join(dir, "output"), script}, stepsProgram(lasts, stepTasks)...)
	words[len(words)-1] = j.steps
	out, err := c.call("sbatch", append(words, filepath.Join(dir, "states"))...)
	if err != nil {
		t.Fatal(err)
	}
	return &batchJob{job: j, cluster: c, id: strings.TrimSpace(out), output: filepath.Join(dir, "output")}
}

// state returns Slurm's state of the job.
func (b *batchJob) state() string {
	out, _ := b.cluster.call("scontrol", "-o", "show", "job", b.id)
	for word := range strings.FieldsSeq(out) {
		if state, ok := strings.CutPrefix(word, "JobState="); ok {
			return state
		}
	}
	return out
}

// awaitState waits for a state.
func (b *batchJob) awaitState(t *testing.T, want string, limit time.Duration) {
	t.Helper()
	for began := time.Now(); b.state() != want; time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > limit {
			output, _ := os.ReadFile(b.output)
			t.Fatalf("job %s is %s after %v; want %s\n%s", b.id, b.state(), limit, want, output)
		}
	}
}

// TestSlurmRequeuedJobsGoOn: a job that was requeued, or preempted by another one, goes on from what it
// has stored.
func TestSlurmRequeuedJobsGoOn(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for _, r := range []struct {
		name string
		harm func(*batchJob) error
	}{
		{"requeued", func(b *batchJob) error {
			_, err := c.call("scontrol", "requeue", b.id)
			return err
		}},
		{"preempted", func(b *batchJob) error {
			_, err := c.call("srun", "-p", "high", "-N", fmt.Sprint(workHosts), "--exclusive", "true")
			return err
		}},
	} {
		t.Run(r.name, func(t *testing.T) {
			b := c.sbatch(t, 6*time.Second)
			if err := b.awaitSteps(40); err != nil {
				t.Fatal(err)
			}
			if err := r.harm(b); err != nil {
				t.Fatal(err)
			}
			before := len(b.times())
			b.awaitState(t, "COMPLETED", time.Minute)
			output, err := os.ReadFile(b.output)
			if err != nil {
				t.Fatal(err)
			}
			right := map[string]bool{}
			for line := range strings.Lines(string(output)) {
				if _, rank, ok := strings.Cut(line, program.Right); ok {
					right[strings.TrimSpace(rank)] = true
				}
			}
			if len(right) != stepTasks {
				t.Errorf("%d of %d tasks were right", len(right), stepTasks)
			}
			noted, err := os.ReadFile(b.steps)
			if err != nil {
				t.Fatal(err)
			}
			if first := strings.Count("\n"+string(noted), "\n0 "); first != 1 {
				t.Errorf("the job has begun %d times, not gone on after step %d", first, before)
			}
			if t.Failed() {
				t.Logf("%s", output)
			}
			t.Logf("requeued after step %d; stall %.1f s", before, longest(b.times()).Seconds())
			c.leavesNothing(t)
		})
	}
}

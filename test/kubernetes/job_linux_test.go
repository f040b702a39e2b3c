package kubernetes

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// manifests is the directory of the manifests, in the repository, as users take them.
const manifests = "../../deploy/kubernetes/"

// readManifest reads the parts of a file.
func readManifest(t *testing.T, name string, parts ...any) {
	t.Helper()
	b, err := os.ReadFile(manifests + name)
	if err != nil {
		t.Fatal(err)
	}
	for i, part := range bytes.Split(b, []byte("\n---\n")) {
		if err := yaml.UnmarshalStrict(part, parts[i]); err != nil {
			t.Fatal(err)
		}
	}
}

// The tests harm one pod after another, at random, with a pause of random length in between.
const (
	harmLeast = 2 * time.Second
	harmMost  = 5 * time.Second
	jobTime   = 6 * time.Minute
)

// TestIndexedJobUnderHarm runs the Job of the manifest, whose tasks save every 40 ms, while its containers are killed and its pods
// deleted and evicted. All values are right, and the Job is complete.
func TestIndexedJobUnderHarm(t *testing.T) {
	c := newCluster(t)
	n := newNode(t, c)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(n.said())
		}
	})
	var service core.Service
	var job batch.Job
	readManifest(t, "job.yaml", &service, &job)
	c.secret(t, "steps")
	if _, err := c.CoreV1().Services("default").Create(t.Context(), &service, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	runs := 1
	if r, err := strconv.Atoi(os.Getenv("COPPICE_KUBERNETES_RUNS")); err == nil {
		runs = r
	}
	for i := range runs {
		if !t.Run(fmt.Sprint(i), func(t *testing.T) { harmed(t, c, n, job.DeepCopy()) }) {
			return
		}
	}
}

func harmed(t *testing.T, c *cluster, n *node, job *batch.Job) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	n.mu.Lock()
	n.log.Reset()
	n.mu.Unlock()
	if dir := os.Getenv("COPPICE_KUBERNETES_LOGS"); dir != "" {
		t.Cleanup(func() {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(seed, ".log")), []byte(n.said()), 0o644); err != nil {
				t.Error(err)
			}
		})
	}
	began := time.Now()
	if _, err := c.BatchV1().Jobs("default").Create(t.Context(), job, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	tasks := int(*job.Spec.Completions)
	await(t, "first step", 2*time.Minute, func() bool { return bytes.Contains([]byte(n.said()), []byte(": step 10")) })
	t.Logf("at work after %v", time.Since(began))
	harms := map[string]int{}
	over := func() (string, bool) {
		j, err := c.BatchV1().Jobs("default").Get(t.Context(), job.Name, meta.GetOptions{})
		if err != nil {
			return "", false
		}
		for _, condition := range j.Status.Conditions {
			if condition.Status == core.ConditionTrue && (condition.Type == batch.JobComplete || condition.Type == batch.JobFailed) {
				return string(condition.Type), true
			}
		}
		return "", false
	}
	succeeded := regexp.MustCompile(`exited with 0\n`)
	next := time.Now()
	end := ""
	for late := time.Now().Add(jobTime); ; time.Sleep(100 * time.Millisecond) {
		how, ended := over()
		if ended {
			end = how
			break
		}
		if time.Now().After(late) {
			t.Fatalf("not over within %v, after %v", jobTime, harms)
		}
		if running := n.running(); time.Now().After(next) && len(running) == tasks && !succeeded.MatchString(n.said()) {
			harms[n.harm(random, running[random.IntN(len(running))])]++
			next = time.Now().Add(harmLeast + time.Duration(random.Int64N(int64(harmMost-harmLeast))))
		}
	}
	t.Logf("%s after %v; harms: %v; longest stall %v", end, time.Since(began).Round(time.Millisecond), harms, stall(n.said()))
	if end != string(batch.JobComplete) {
		t.Errorf("the Job ended %s", end)
	}
	right := map[string]bool{}
	for _, m := range regexp.MustCompile(`: right: (\d+)\n`).FindAllStringSubmatch(n.said(), -1) {
		right[m[1]] = true
	}
	if len(right) != tasks {
		t.Errorf("%d of %d tasks were right: %v", len(right), tasks, right)
	}
	if len(harms) == 0 {
		t.Error("no harm came to it")
	}
	background := meta.DeletePropagationBackground
	if err := c.BatchV1().Jobs("default").Delete(t.Context(), job.Name, meta.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	_ = c.CoreV1().Pods("default").DeleteCollection(t.Context(), meta.DeleteOptions{}, meta.ListOptions{})
	await(t, "end of all pods", 2*time.Minute, func() bool {
		list, err := c.CoreV1().Pods("default").List(t.Context(), meta.ListOptions{})
		return err == nil && len(list.Items) == 0
	})
}

// stall returns the longest time between two steps in a log.
func stall(log string) (most time.Duration) {
	var last time.Time
	for _, m := range regexp.MustCompile(`(?m)^(\S+) \S+: step \d+$`).FindAllStringSubmatch(log, -1) {
		at, err := time.Parse("15:04:05.000", m[1])
		if err == nil && !last.IsZero() {
			most = max(most, at.Sub(last))
		}
		last = at
	}
	return most
}

// harm does something to a pod, and returns what.
func (n *node) harm(random *rand.Rand, p *pod) (what string) {
	pods := n.cluster.CoreV1().Pods("default")
	switch random.IntN(3) {
	case 0:
		what = "killed"
		n.mu.Lock()
		_ = p.cmd.Process.Signal(syscall.SIGKILL)
		n.mu.Unlock()
	case 1:
		what = "deleted"
		if err := pods.Delete(background, p.spec.Name, meta.DeleteOptions{}); err != nil {
			what = "not deleted"
		}
	case 2:
		what = "evicted"
		if err := pods.EvictV1(background, &policy.Eviction{ObjectMeta: meta.ObjectMeta{Name: p.spec.Name, Namespace: "default"}}); err != nil {
			what = "not evicted"
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.note("%s %s", p.spec.Name, what)
	return what
}

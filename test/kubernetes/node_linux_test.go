package kubernetes

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// node is the one on which all pods run. It handles them like a kubelet, as far as jobs can see.
type node struct {
	t       *testing.T
	cluster *cluster
	dir     string

	mu      sync.Mutex
	pods    map[types.UID]*pod
	numbers int // how many addresses were given out
	log     bytes.Buffer
}

// pod is a pod that the node runs.
type pod struct {
	node     *node
	spec     *core.Pod
	dir      string // of its volume, which outlives a container
	address  string
	cmd      *exec.Cmd // the latest container
	restarts int32
	ending   bool // SIGTERM was sent
	over     bool // its status is final
}

const (
	nodeName    = "node"
	nodeAddress = "10.244.0.1"
	lookEvery   = 100 * time.Millisecond
	restartTime = time.Second // after which a container that has failed is started again
)

// newNode makes the node and its network: a bridge, to which every pod has a link.
func newNode(t *testing.T, c *cluster) *node {
	t.Helper()
	n := &node{t: t, cluster: c, dir: t.TempDir(), pods: map[types.UID]*pod{}}
	// With an address of its own: otherwise the bridge takes that of a link, and pods that know another
	// address wait half a minute for names.
	run(t, "ip", "link", "add", "pods", "address", "02:00:00:00:00:01", "type", "bridge")
	t.Cleanup(func() { run(t, "ip", "link", "delete", "pods") })
	run(t, "ip", "address", "add", nodeAddress+"/16", "dev", "pods")
	run(t, "ip", "link", "set", "pods", "up")
	if err := os.WriteFile(filepath.Join(n.dir, "resolv.conf"), []byte("nameserver "+nodeAddress+"\nsearch default.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	serveNames(t, c)
	self := &core.Node{ObjectMeta: meta.ObjectMeta{Name: nodeName}}
	if _, err := c.CoreV1().Nodes().Create(t.Context(), self, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(background)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			n.look(ctx)
			time.Sleep(lookEvery)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, p := range n.pods {
			p.kill()
		}
	})
	return n
}

// look does what each pod needs.
func (n *node) look(ctx context.Context) {
	list, err := n.cluster.CoreV1().Pods("default").List(ctx, meta.ListOptions{})
	if err != nil {
		return
	}
	for i := range list.Items {
		spec := &list.Items[i]
		n.mu.Lock()
		p := n.pods[spec.UID]
		n.mu.Unlock()
		switch {
		case p == nil && spec.DeletionTimestamp != nil:
			n.remove(ctx, spec)
		case spec.Spec.NodeName == "":
			binding := &core.Binding{ObjectMeta: meta.ObjectMeta{Name: spec.Name, UID: spec.UID}, Target: core.ObjectReference{Kind: "Node", Name: nodeName}}
			_ = n.cluster.CoreV1().Pods("default").Bind(ctx, binding, meta.CreateOptions{}) // the next look tries again
		case p == nil:
			n.begin(spec)
		case spec.DeletionTimestamp != nil:
			p.terminate(ctx, spec)
		}
	}
}

// begin starts a pod.
func (n *node) begin(spec *core.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.numbers++
	p := &pod{node: n, spec: spec, address: fmt.Sprintf("10.244.%d.%d", 1+n.numbers/250, 1+n.numbers%250), dir: filepath.Join(n.dir, string(spec.UID))}
	n.pods[spec.UID] = p
	if err := os.Mkdir(p.dir, 0o777); err != nil {
		n.t.Error(err)
		return
	}
	_ = os.Chmod(p.dir, 0o777)
	n.begun(p)
}

// begun starts a container of a pod, and handles its end. The caller holds n.mu.
func (n *node) begun(p *pod) {
	if err := p.run(); err != nil {
		n.t.Errorf("%s: %v", p.spec.Name, err)
		return
	}
	n.note("%s started, restarts %d, %s", p.spec.Name, p.restarts, p.address)
	go p.report(core.PodRunning, core.ContainerState{Running: &core.ContainerStateRunning{StartedAt: meta.Now()}})
	cmd := p.cmd
	go func() {
		_ = cmd.Wait()
		n.ended(p, cmd)
	}()
}

// ended handles the end of a container.
func (n *node) ended(p *pod, cmd *exec.Cmd) {
	code := cmd.ProcessState.ExitCode()
	if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		code = 128 + int(s.Signal())
	}
	n.mu.Lock()
	n.note("%s exited with %d", p.spec.Name, code)
	again := code != 0 && p.spec.Spec.RestartPolicy == core.RestartPolicyOnFailure || p.spec.Spec.RestartPolicy == core.RestartPolicyAlways
	if again && !p.ending {
		n.mu.Unlock()
		p.report(core.PodRunning, core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: "CrashLoopBackOff"}})
		time.Sleep(restartTime)
		n.mu.Lock()
		defer n.mu.Unlock()
		if !p.ending {
			p.restarts++
			n.begun(p)
		} else {
			p.over = true
			go p.report(core.PodFailed, terminated(code))
		}
		return
	}
	p.over = true
	n.mu.Unlock()
	phase := core.PodFailed
	if code == 0 {
		phase = core.PodSucceeded
	}
	p.report(phase, terminated(code))
}

func terminated(code int) core.ContainerState {
	return core.ContainerState{Terminated: &core.ContainerStateTerminated{ExitCode: int32(code), FinishedAt: meta.Now()}}
}

// terminate ends a deleted pod, with its grace, and removes it when it is over.
func (p *pod) terminate(ctx context.Context, spec *core.Pod) {
	p.node.mu.Lock()
	defer p.node.mu.Unlock()
	switch {
	case p.over:
		if spec.Status.Phase == core.PodFailed || spec.Status.Phase == core.PodSucceeded {
			go p.node.remove(ctx, spec)
		}
	case !p.ending:
		p.ending = true
		p.node.note("%s terminated", p.spec.Name)
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		grace := time.Duration(*spec.DeletionGracePeriodSeconds) * time.Second
		time.AfterFunc(grace, p.kill)
	}
}

// remove makes the API server forget a pod that is gone.
func (n *node) remove(ctx context.Context, spec *core.Pod) {
	now := int64(0)
	_ = n.cluster.CoreV1().Pods("default").Delete(ctx, spec.Name, meta.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &meta.Preconditions{UID: &spec.UID}})
}

func (p *pod) kill() { _ = p.cmd.Process.Kill() }

// container begins in the namespaces of a pod: it waits for its network, and becomes the program, as the user that the pod names.
const container = `set -e
read -r go
hostname "$1"
mount -t proc proc /proc
mount --bind "$2" /dev/shm
mount --bind "$3" /etc/resolv.conf
shift 3
exec setpriv --reuid 65532 --regid 65532 --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all -- "$@"`

// run starts the container.
func (p *pod) run() error {
	args := append([]string{"-c", container, "sh", p.spec.Spec.Hostname, p.dir, filepath.Join(p.node.dir, "resolv.conf"), os.Getenv(programVariable)}, p.spec.Spec.Containers[0].Args...)
	p.cmd = exec.Command("sh", args...)
	vars, err := p.variables()
	if err != nil {
		return err
	}
	p.cmd.Env = append(vars, "PATH="+os.Getenv("PATH"))
	out := &prefixed{node: p.node, name: p.spec.Name}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWPID}
	input, err := p.cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	if err := p.connect(); err != nil {
		p.kill()
		return err
	}
	_, err = io.WriteString(input, "go\n")
	input.Close()
	return err
}

// connect gives the container its network.
func (p *pod) connect() error {
	pid := fmt.Sprint(p.cmd.Process.Pid)
	inside := func(args ...string) []string {
		return append([]string{"nsenter", "--net", "--target", pid, "ip"}, args...)
	}
	for _, c := range [][]string{
		{"ip", "link", "add", "v" + pid, "type", "veth", "peer", "name", "eth0", "netns", pid},
		{"ip", "link", "set", "v" + pid, "master", "pods", "up"},
		inside("link", "set", "lo", "up"),
		inside("address", "add", p.address+"/16", "dev", "eth0"),
		inside("link", "set", "eth0", "up"),
	} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(c, " "), err, out)
		}
	}
	return nil
}

// variables returns the variables of the container.
func (p *pod) variables() (all []string, err error) {
	for _, v := range p.spec.Spec.Containers[0].Env {
		value := v.Value
		switch from := v.ValueFrom; {
		case from == nil:
		case from.FieldRef != nil:
			value = p.field(from.FieldRef.FieldPath)
		case from.SecretKeyRef != nil:
			s, err := p.node.cluster.CoreV1().Secrets("default").Get(background, from.SecretKeyRef.Name, meta.GetOptions{})
			if err != nil {
				return nil, err
			}
			value = string(s.Data[from.SecretKeyRef.Key])
		default:
			return nil, fmt.Errorf("variable %s: the node knows fields and secrets", v.Name)
		}
		all = append(all, v.Name+"="+value)
	}
	return all, nil
}

// field returns one of the pod's own fields: a label or an annotation.
func (p *pod) field(path string) string {
	for prefix, from := range map[string]map[string]string{"metadata.labels['": p.spec.Labels, "metadata.annotations['": p.spec.Annotations} {
		if key, ok := strings.CutPrefix(path, prefix); ok {
			return from[strings.TrimSuffix(key, "']")]
		}
	}
	return ""
}

// report reports the pod's state to the API server.
func (p *pod) report(phase core.PodPhase, state core.ContainerState) {
	ready := core.ConditionFalse
	if state.Running != nil {
		ready = core.ConditionTrue
	}
	for range 20 { // another writer may have changed it meanwhile
		latest, err := p.node.cluster.CoreV1().Pods("default").Get(background, p.spec.Name, meta.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && latest.UID != p.spec.UID {
			return
		}
		if err == nil {
			p.node.mu.Lock()
			restarts := p.restarts
			p.node.mu.Unlock()
			s := &latest.Status
			s.Phase, s.PodIP, s.PodIPs, s.HostIP = phase, p.address, []core.PodIP{{IP: p.address}}, nodeAddress
			s.ContainerStatuses = []core.ContainerStatus{{
				Name: p.spec.Spec.Containers[0].Name, Image: p.spec.Spec.Containers[0].Image, State: state,
				Ready: state.Running != nil, RestartCount: restarts,
			}}
			setCondition(s, core.PodReady, ready)
			setCondition(s, core.ContainersReady, ready)
			if _, err = p.node.cluster.CoreV1().Pods("default").UpdateStatus(background, latest, meta.UpdateOptions{}); err == nil {
				return
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	p.node.t.Errorf("%s: its status cannot be reported", p.spec.Name)
}

func setCondition(s *core.PodStatus, kind core.PodConditionType, status core.ConditionStatus) {
	for i := range s.Conditions {
		if c := &s.Conditions[i]; c.Type == kind {
			if c.Status != status {
				c.Status, c.LastTransitionTime = status, meta.Now()
			}
			return
		}
	}
	s.Conditions = append(s.Conditions, core.PodCondition{Type: kind, Status: status, LastTransitionTime: meta.Now()})
}

// running returns the pods whose container runs.
func (n *node) running() (all []*pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods {
		if !p.ending && !p.over && p.cmd != nil && p.cmd.ProcessState == nil {
			all = append(all, p)
		}
	}
	return all
}

// note adds a line to the log that is shown if the test fails. The caller holds n.mu.
func (n *node) note(format string, args ...any) {
	fmt.Fprintf(&n.log, time.Now().Format("15:04:05.000 ")+format+"\n", args...)
}

// prefixed writes a container's output to the log, under the name of its pod.
type prefixed struct {
	node *node
	name string
}

func (w *prefixed) Write(b []byte) (int, error) {
	w.node.mu.Lock()
	defer w.node.mu.Unlock()
	for line := range strings.Lines(string(b)) {
		w.node.note("%s: %s", w.name, strings.TrimSuffix(line, "\n"))
	}
	return len(b), nil
}

// said returns the output of all containers.
func (n *node) said() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.log.String()
}

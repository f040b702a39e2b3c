package doctor

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/detect"
	"github.com/coppice-go/coppice/internal/launch"
	"github.com/coppice-go/coppice/internal/posix"
	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/internal/wire"
)

// Serve examines this host as the requests on in ask, and answers on out, until in or ctx ends. version is the version
// of the command.
func Serve(ctx context.Context, version string, in io.Reader, out io.Writer) error {
	if _, err := fmt.Fprintln(out, greeting); err != nil {
		return err
	}
	h := &host{version: version}
	defer h.close()
	lines := newLines(in)
	to := json.NewEncoder(out)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("request: %w; allowed: those of coppice doctor", err)
		}
		a := answer{Time: time.Now()}
		switch {
		case r.Examine != nil && h.Key == nil:
			h.orders = *r.Examine
			a.Facts = h.examine()
		case r.Reach != nil && h.endpoint != nil:
			h.others = len(r.Reach)
			a.Reached = h.reachAll(ctx, r.Reach)
		case r.Heard:
			a.Heard = h.awaitHeard()
		}
		if err := to.Encode(a); err != nil {
			return err
		}
	}
	return lines.Err()
}

func newLines(r io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 8<<20)
	return s
}

// host is this host.
type host struct {
	orders
	version  string
	endpoint *transport.Endpoint // nil: it cannot listen
	udp      *detect.Datagrams   // nil: it cannot listen
	findings []Finding
	others   int // hosts that send datagrams

	mu    sync.Mutex
	heard []uint32
}

func (h *host) close() {
	if h.endpoint != nil {
		_ = h.endpoint.Close()
	}
	if h.udp != nil {
		_ = h.udp.Close()
	}
}

// find adds a finding.
func (h *host) find(state, check, text, advice string) {
	h.findings = append(h.findings, Finding{State: state, Check: check, Text: text, Advice: advice})
}

// examine checks what this host has of what a job needs.
func (h *host) examine() *facts {
	for _, variable := range h.Env {
		name, value, _ := strings.Cut(variable, "=")
		_ = os.Setenv(name, value) // a variable that cannot be set reaches no process, either
	}
	h.examineLimits()
	h.examineDirectory()
	h.examineKernel()
	sum := h.examineProgram()
	addresses := h.listen()
	return &facts{
		Version: h.version, Agent: launch.AgentVersion(), Wire: wire.Version, Host: transport.HostID(),
		Program: sum, Addresses: addresses, Findings: h.findings,
	}
}

// raise returns what to do about a limit.
const raise = "raise the limit in /etc/security/limits.conf, or take fewer processes"

func (h *host) examineLimits() {
	if h.Slots == 0 { // the launcher's host
		return
	}
	if err := launch.CheckLimits(h.Slots); err != nil {
		h.find(Fail, "limits", err.Error(), raise)
		return
	}
	h.find(OK, "limits", fmt.Sprintf("open files and processes are enough for %d", h.Slots), "")
}

// roomEach is the space that a process may need in the job's directory. Its files there take some kilobytes, more in jobs of thousands.
const roomEach = 256 << 10

// examineDirectory creates the directory of a job, as an agent does, and the memory that processes share in it.
func (h *host) examineDirectory() {
	const variable = "set " + control.VarParent + " to a directory, on this host, in which it can be"
	dir, err := control.MakeDir(os.Getenv)
	if err != nil {
		h.find(Fail, "directory", err.Error(), variable)
		return
	}
	remove, err := control.Keep(dir)
	if err != nil {
		os.RemoveAll(dir)
		h.find(Fail, "directory", err.Error(), variable)
		return
	}
	defer remove()
	parent := filepath.Dir(dir)
	need := uint64(h.Slots+1) * roomEach
	switch free, err := posix.Free(dir); {
	case err != nil:
		h.find(Note, "directory", fmt.Sprintf("%s: how much room there is: %v", parent, err), "see for yourself")
	case free < need:
		h.find(Fail, "directory", fmt.Sprintf("%s has room for %s; %d processes may want %s", parent, bytes(free), h.Slots, bytes(need)), "make room, or set "+control.VarParent+" to another directory")
	default:
		h.find(OK, "directory", fmt.Sprintf("%s has room for %s", parent, bytes(free)), "")
	}
	page, err := detect.OpenPage(dir, max(h.Size, 1))
	if err != nil {
		h.find(Note, "shared memory", err.Error(), "without it signs of life are messages; set "+control.VarParent+" to a directory whose files can be mapped")
		return
	}
	_ = page.Close()
}

func bytes(n uint64) string {
	if n >= 1<<30 {
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

func (h *host) examineKernel() {
	fd, err := detect.OpenPidfd(os.Getpid())
	if err == nil {
		_ = posix.Close(fd)
		return
	}
	advice := "take a kernel from Linux 5.4 on, and let seccomp allow pidfd_open: without it an exit is noticed later, and not for certain"
	if runtime.GOOS != "linux" {
		advice = "jobs of several processes need Linux"
	}
	h.find(Note, "kernel", err.Error(), advice)
}

// examineProgram finds the program, and hashes it.
func (h *host) examineProgram() (sum string) {
	if h.Program == "" {
		return ""
	}
	path, err := launch.FindProgram(h.Program)
	if err == nil {
		var f *os.File
		if f, err = os.Open(path); err == nil {
			defer f.Close()
			of := sha256.New()
			_, err = io.Copy(of, f)
			sum = hex.EncodeToString(of.Sum(nil))
		}
	}
	if err != nil {
		h.find(Fail, "program", err.Error(), "put it there, at the same path as on the other hosts")
		return ""
	}
	return sum
}

// listen opens the ports that a process of a job would.
func (h *host) listen() (texts []string) {
	const variable = "set " + transport.ListenVariable + " or --interface to a network of this host and to free ports, such as tls:10.0.0.0/8:7000-7099"
	at, _, err := transport.ListenPlace(os.Getenv, true)
	if err == nil {
		h.endpoint, err = transport.Listen(transport.Config{
			Key: h.Key, Self: wire.Identity{Job: h.Job, From: h.Number, Incarnation: 1},
			// A peer that is refused has proven the key, and so has this host: there is nothing more to learn.
			Decide:      func(wire.Identity) (me wire.Identity, verdict wire.Refusal) { return me, wire.Closing },
			Established: func(*transport.Conn) {},
		}, at)
	}
	if err != nil {
		h.endpoint = nil
		h.find(Fail, "listen", err.Error(), variable)
		return nil
	}
	all := h.endpoint.Addresses()
	for _, a := range all {
		texts = append(texts, a.String())
	}
	if at.Kind == transport.Unix {
		return texts
	}
	h.find(OK, "listen", strings.Join(texts, " "), "")
	h.receive(at, all[0].Host)
	return texts
}

// receive receives datagrams, on the port of the same number.
func (h *host) receive(place transport.Place, first netip.AddrPort) {
	at := netip.AddrPortFrom(netip.Addr{}, first.Port())
	if place.Net.IsValid() || first.Addr().IsLoopback() {
		at = first
	}
	udp, err := detect.ListenDatagrams(at, h.Job, h.Key, int(h.Number), 1)
	if err != nil {
		h.find(Note, "datagrams", err.Error(), "signs of life go over connections instead")
		return
	}
	h.udp = udp
	go func() {
		for {
			m, _, err := udp.Receive()
			if err != nil { // it is closed
				return
			}
			h.mu.Lock()
			if !slices.Contains(h.heard, m.From) {
				h.heard = append(h.heard, m.From)
			}
			h.mu.Unlock()
		}
	}()
}

// awaitHeard reports from which hosts datagrams have arrived, when all have, or after heardTime.
func (h *host) awaitHeard() []uint32 {
	for late := time.Now().Add(heardTime); h.udp != nil; time.Sleep(gapTime / 10) {
		if all := h.whoWasHeard(); len(all) >= h.others || time.Now().After(late) {
			return all
		}
	}
	return nil
}

func (h *host) whoWasHeard() []uint32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(slices.Values(h.heard))
}

// reachAll connects to other hosts, all at once.
func (h *host) reachAll(ctx context.Context, all []target) []reached {
	found := make([]reached, len(all))
	var running sync.WaitGroup
	for i, to := range all {
		running.Go(func() { found[i] = h.reach(ctx, to) })
	}
	running.Wait()
	return found
}

// reach connects to another host as a process connects to one there.
func (h *host) reach(ctx context.Context, to target) (r reached) {
	r = reached{To: to.Number}
	a, err := h.way(ctx, to)
	if err != nil {
		r.How, r.Text = unreachable, err.Error()
		return r
	}
	r.Address = a.Host.String()
	if h.udp != nil {
		go func() {
			for range datagrams {
				h.udp.Send(a.Host, detect.Datagram{To: to.Number})
				time.Sleep(gapTime)
			}
		}()
	}
	began := time.Now()
	if err := h.connect(ctx, a); err != nil {
		r.How, r.Text = failure(err), err.Error()
		return r
	}
	r.Took = time.Since(began)
	r.How, r.Text = h.shake(ctx, a, to.Number)
	return r
}

// way returns the address that a process on this host would use.
func (h *host) way(ctx context.Context, to target) (transport.Address, error) {
	var all []transport.Address
	for _, text := range to.Addresses {
		a, err := transport.ParseAddress(text)
		if err != nil {
			return a, err
		}
		all = append(all, a)
	}
	if to.Fallback == "" || len(all) == 0 {
		return transport.Choose(transport.HostID(), to.Host, all)
	}
	ctx, cancel := context.WithTimeout(ctx, ConnectTime)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", launch.Caller(to.Fallback))
	if err != nil {
		return transport.Address{}, err
	}
	return transport.Address{Kind: all[0].Kind, Host: netip.AddrPortFrom(found[0].Unmap(), all[0].Host.Port())}, nil
}

// connect only connects: if the handshake fails later, the connection was not the cause.
func (h *host) connect(ctx context.Context, a transport.Address) error {
	d := net.Dialer{Timeout: ConnectTime}
	conn, err := d.DialContext(ctx, "tcp", a.Host.String())
	if err == nil {
		_ = conn.Close()
	}
	return err
}

// shake makes the handshake of two processes.
func (h *host) shake(ctx context.Context, a transport.Address, number uint32) (how, text string) {
	ctx, cancel := context.WithTimeout(ctx, ConnectTime)
	defer cancel()
	c, err := h.endpoint.Dial(ctx, a, wire.Identity{To: number}, 0)
	var refusal wire.Refusal
	switch {
	case err == nil:
		_ = c.Close()
		return reachedWell, ""
	case errors.As(err, &refusal) && refusal == wire.Closing:
		return reachedWell, "" // as Serve answers
	case errors.As(err, &refusal), errors.Is(err, transport.ErrUnheard), errors.Is(err, wire.ErrStranger):
		return strange, err.Error()
	}
	return unfinished, err.Error()
}

// failure returns why there is no connection.
func failure(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return refused
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return blocked
	}
	return unreachable
}

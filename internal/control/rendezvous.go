package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-go/coppice/internal/wire"
)

// A rendezvous is a service outside the job, such as etcd, through which its processes find each other (COPPICE_RENDEZVOUS).
// Programs import it for its side effect, so that other programs do not get its dependencies. Each process opens its own door
// and registers it. The seeds (seeds.go) are the registered doors, in an order that all processes see. If
// the user assigns no ranks, each process draws one at the rendezvous.
//
// Once the job has begun, nothing depends on the service: while it does not answer, processes use its last answer. The job asks it
// once more if a view splits into halves: the service then names the process whose half continues (Name). Without an answer neither half does.

// Rendezvous is the registration of one process. Any goroutine may call its methods at any time.
type Rendezvous interface {
	// Rank returns the rank that the process came with, or the rank that was drawn for it.
	Rank() int
	// Redraw returns the drawn rank to the service, and draws another one. It waits until one is free.
	Redraw(ctx context.Context) (int, error)
	// Doors returns the first registered doors, as far as is known, the oldest first. It does not wait.
	Doors() []Door
	// Name permanently names a process of a job for a view, unless another process is named, and reports whether this process is the one.
	Name(ctx context.Context, job [16]byte, view uint64, who Identity) (bool, error)
	// Close ends the registration. It waits for the service for about a second at most.
	Close()
}

// Door is where a process can be reached by processes that look for its job.
type Door struct {
	Address string // HOST:PORT
	Host    string // as in Registrant
	Own     bool   // whether it is the door of this process
}

// Registrant is what a rendezvous knows of a process.
type Registrant struct {
	URL       string   // as the user wrote it
	Endpoints []string // addresses of the service: HOST or HOST:PORT each
	Job       string   // the job's name in the service
	Getenv    func(string) string
	Life      uint64 // unique to this process
	Host      string // processes of the same host share the job's directory
	Door      string // HOST:PORT where this process listens
	Rank      int    // −1: the rendezvous draws the lowest free rank below Size+Grow
	Size      int
	Grow      int
	Wait      time.Duration // how long the process may wait for a free rank
	Logger    *slog.Logger
}

// StartRendezvous registers a process. If that fails, the error is one line that names the variable and the remedy.
type StartRendezvous func(ctx context.Context, r Registrant) (Rendezvous, error)

var rendezvous = struct {
	sync.Mutex
	by map[string]StartRendezvous
}{by: map[string]StartRendezvous{}}

// RegisterRendezvous registers a service under the scheme of its URLs. Call it from an init function.
func RegisterRendezvous(scheme string, start StartRendezvous) {
	rendezvous.Lock()
	defer rendezvous.Unlock()
	rendezvous.by[scheme] = start
}

// modules are the packages of the known schemes.
var modules = map[string]string{
	"etcd":  "github.com/coppice-go/coppice/etcd",
	"etcds": "github.com/coppice-go/coppice/etcd",
}

// startRendezvous returns how to register at the service of a scheme.
func startRendezvous(scheme string) (StartRendezvous, error) {
	rendezvous.Lock()
	defer rendezvous.Unlock()
	if start := rendezvous.by[scheme]; start != nil {
		return start, nil
	}
	if module := modules[scheme]; module != "" {
		return nil, fmt.Errorf("%s is set, but the program does not import %s; add import _ %q to it, or set %s instead", VarRendezvous, module, module, VarCoordinator)
	}
	schemes := slices.AppendSeq(slices.Collect(maps.Keys(modules)), maps.Keys(rendezvous.by))
	slices.Sort(schemes)
	return nil, fmt.Errorf("%s begins with %q; allowed: %s", VarRendezvous, scheme+"://", strings.Join(slices.Compact(schemes), "://, ")+"://")
}

// meeting is what COPPICE_RENDEZVOUS says.
type meeting struct {
	scheme    string
	endpoints []string
	job       string
}

// jobName matches the names that a job may have in a rendezvous. Most processes need none.
var jobName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`) })

// parseMeeting reads SCHEME://HOST:PORT,…/JOB.
func parseMeeting(text string) (m meeting, err error) {
	scheme, rest, ok := strings.Cut(text, "://")
	at, job, slash := strings.Cut(rest, "/")
	m = meeting{scheme, strings.Split(at, ","), job}
	const allowed = "allowed: etcd://HOST:PORT,HOST:PORT,…/JOB"
	switch {
	case strings.Contains(at, "@"): // a password, which must not be printed
		return m, fmt.Errorf("%s has a user in it; allowed: COPPICE_ETCD_USER and COPPICE_ETCD_PASSWORD instead", VarRendezvous)
	case !ok || !slash || scheme == "":
		return m, fmt.Errorf("%s=%q; %s", VarRendezvous, text, allowed)
	case !jobName().MatchString(job):
		return m, fmt.Errorf("%s=%q names the job %q; %s, with a JOB of up to 100 letters, digits, dots, hyphens and underscores", VarRendezvous, text, job, allowed)
	}
	for _, endpoint := range m.endpoints {
		host, port, err := net.SplitHostPort(endpoint)
		if err != nil { // the port may be missing
			host, port = strings.Trim(endpoint, "[]"), "1"
		}
		if _, e := net.LookupPort("tcp", port); host == "" || e != nil || strings.ContainsAny(host, " []?#") {
			return m, fmt.Errorf("%s=%q has the address %q; %s", VarRendezvous, text, endpoint, allowed)
		}
	}
	return m, nil
}

// growLeast is the least number of processes that may join a job whose ranks are drawn, if the user does not set it.
const growLeast = 16

// rendezvousSize reads the number of processes that the job begins with, and how many may join it. The default depends on whether ranks are drawn.
func (e environment) rendezvousSize(p *Place, drawn bool) (err error) {
	if !e.has(VarSize) {
		return fmt.Errorf("%s is set, but not %s; allowed: the number of processes that the job begins with. More may join while it runs (%s)", VarRendezvous, VarSize, VarGrow)
	}
	if p.Size, err = e.number(VarSize, 1, SizeMax); err != nil {
		return err
	}
	grow := 0
	if drawn {
		grow = min(max(p.Size, growLeast), SizeMax-p.Size)
	}
	p.Grow, err = e.numberOr(VarGrow, 0, SizeMax-p.Size, grow)
	return err
}

// meets completes the place of a process that finds the others through a rendezvous.
func (e environment) meets(p *Place) (meeting, error) {
	m, err := parseMeeting(e.get(VarRendezvous))
	if err != nil {
		return m, err
	}
	if e.has(VarCoordinator) {
		return m, fmt.Errorf("%s and %s are both set; allowed: one of them", VarRendezvous, VarCoordinator)
	}
	if _, err := startRendezvous(m.scheme); err != nil {
		return m, err
	}
	p.Rendezvous, p.Coordinator = e.get(VarRendezvous), e.get(VarRendezvous)
	return m, nil
}

// seeded reports whether processes look for each other at seeds.
func (p Place) seeded() bool { return p.Seeds != nil || p.Rendezvous != "" }

// Spread reports whether processes of the job may be on other hosts.
func (p Place) Spread() bool { return p.LocalSize < p.Size || p.Rendezvous != "" }

// register opens the door of this process, registers it, and draws a rank if the process has none.
func (c *Client) register(ctx context.Context) error {
	if c.place.Rendezvous == "" {
		return nil
	}
	m, err := parseMeeting(c.place.Rendezvous)
	if err != nil {
		return err
	}
	start, err := startRendezvous(m.scheme)
	if err != nil {
		return err
	}
	door, address, err := c.openOwnDoor(ctx, m.endpoints[0])
	if err != nil {
		return fmt.Errorf("%s: a door for the others: %w", VarRendezvous, err)
	}
	c.drawn = c.place.Rank < 0
	c.meet, err = start(ctx, Registrant{
		URL: c.place.Rendezvous, Endpoints: m.endpoints, Job: m.job, Getenv: c.place.getenv, Life: c.id.Life,
		Host: c.place.HostID, Door: address, Rank: c.place.Rank, Size: c.place.Size, Grow: c.place.Grow,
		Wait: max(joinTimeout, c.place.JoinTimeout), Logger: c.log,
	})
	if err != nil {
		door.Close()
		return err
	}
	c.door = door
	c.take(c.meet.Rank())
	c.log.Info("control: registered", "at", c.place.Rendezvous, "rank", c.place.Rank, "door", address)
	c.wg.Go(func() {
		defer c.closeDoor()
		defer context.AfterFunc(c.ctx, func() { door.Close() })()
		c.admitAt(door)
	})
	return nil
}

// take sets the rank of this process.
func (c *Client) take(rank int) { c.place.Rank, c.id.From = rank, uint32(rank) }

// unregister ends the registration.
func (c *Client) unregister() {
	if c.meet != nil {
		c.meet.Close()
	}
}

// Arbiter returns a function that asks the rendezvous which process may continue with half of a view (node.Config); nil: there is none.
func (c *Client) Arbiter() func(ctx context.Context, view uint64) (bool, error) {
	if c.meet == nil {
		return nil
	}
	job, self := c.place.Job, c.self()
	return func(ctx context.Context, view uint64) (bool, error) { return c.meet.Name(ctx, job, view, self) }
}

// crossedMax is how long a process with a drawn rank waits for the process that has this rank in the job.
const crossedMax = 10 * time.Second

// redraw draws another rank if a live process has this one in the job. That process was cut off from the rendezvous for so long that
// its rank seemed to be free there.
func (c *Client) redraw(ctx context.Context, err error) error {
	switch {
	case !c.drawn || !errors.Is(err, wire.Crossed):
		c.crossed = time.Time{}
		return nil
	case c.crossed.IsZero():
		c.crossed = time.Now()
	case time.Since(c.crossed) > crossedMax:
		rank, err := c.meet.Redraw(ctx)
		if err != nil {
			return err
		}
		c.log.Info("control: another process has the rank that was drawn", "rank", c.place.Rank, "now", rank)
		c.take(rank)
		c.crossed = time.Time{}
	}
	return nil
}

// openOwnDoor listens on a free port of the address at which other hosts reach this one: an address in the network that the user
// has named, the one on the way to the rendezvous, or another one of this host.
func (c *Client) openOwnDoor(ctx context.Context, toward string) (net.Listener, string, error) {
	on := c.place.Net
	var host string
	if !on.IsValid() {
		host = wayTo(ctx, toward)
	}
	if host == "" {
		if host = ownAddress(on); host == "" {
			return nil, "", fmt.Errorf("no interface has an address in %v", on)
		}
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, "", err
	}
	return l, l.Addr().String(), nil
}

// wayTo returns the address of this host on the way to another host; "": it is unknown, or reaches only this host.
func wayTo(ctx context.Context, to string) string {
	ctx, cancel := context.WithTimeout(ctx, seedTry)
	defer cancel()
	if _, _, err := net.SplitHostPort(to); err != nil {
		to = net.JoinHostPort(strings.Trim(to, "[]"), "1")
	}
	conn, err := new(net.Dialer).DialContext(ctx, "udp", to) // sends nothing
	if err != nil {
		return ""
	}
	defer conn.Close()
	if at := conn.LocalAddr().(*net.UDPAddr).IP; !at.IsLoopback() && !at.IsLinkLocalUnicast() {
		return at.String()
	}
	return ""
}

// ownAddress returns an address of this host in a network (the zero value: any), loopback and IPv6 only if there is no other; "": none.
func ownAddress(in netip.Prefix) (best string) {
	addresses, _ := net.InterfaceAddrs()
	least := 4
	for _, a := range addresses {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || p.Addr().IsLinkLocalUnicast() || in.IsValid() && !in.Contains(p.Addr().Unmap()) {
			continue
		}
		cost := 0
		if p.Addr().IsLoopback() {
			cost += 2
		}
		if p.Addr().Is6() {
			cost++
		}
		if cost < least {
			best, least = p.Addr().Unmap().String(), cost
		}
	}
	return best
}

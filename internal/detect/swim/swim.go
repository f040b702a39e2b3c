package swim

import (
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/coppice-go/coppice/internal/detect"
)

// Bounds of a detector's configuration.
const (
	SilenceMin = 500 * time.Millisecond // a probe may take a twentieth of it
	keyMin     = 16                     // bytes
	rankMax    = 1 << 20
)

// Detector is one process's part of the detection.
type Detector struct {
	list *memberlist.Memberlist
	news *news

	meet chan string
	quit chan struct{}
	end  sync.Once
	wg   sync.WaitGroup
}

// meetMax is how many addresses may wait to be met. More are not needed: each peer met reports all the
// others.
const meetMax = 16

// Start starts the detector of a process: about 11 goroutines and 2 sockets. With a silence of S and up
// to 10 processes, a stopped process is suspected 0.5 to 1.2 S later, by all others within S/10 of each
// other. With n processes the time to refute, 0.4 to 0.8 S of it, is log10 n times as long. A detector
// that finds itself slow gives others more time, but where many processes wait for a processor for
// S/10, it suspects some that are merely late: S should be seconds.
func Start(cfg detect.Outside) (*Detector, error) {
	at, err := check(&cfg)
	if err != nil {
		return nil, err
	}
	key, err := hkdf.Key(sha256.New, cfg.Key, nil, "coppice: detection by SWIM", sha256.Size)
	if err != nil {
		return nil, err
	}
	d := &Detector{
		news: newNews(cfg),
		meet: make(chan string, meetMax),
		quit: make(chan struct{}),
	}
	d.list, err = memberlist.Create(d.settings(cfg, at, key))
	if err != nil {
		return nil, fmt.Errorf("detection by SWIM at %s: %w", cfg.Bind, err)
	}
	d.wg.Go(d.news.run)
	d.wg.Go(d.introduce)
	return d, nil
}

func check(c *detect.Outside) (at netip.AddrPort, err error) {
	at, err = netip.ParseAddrPort(c.Bind)
	switch {
	case err != nil || at.Addr().IsUnspecified() || at.Addr().Zone() != "":
		return at, fmt.Errorf("address %q to be found at; allowed: IP:PORT, the IP one of this host", c.Bind)
	case c.Rank < 0 || c.Rank >= rankMax:
		return at, fmt.Errorf("rank %d; allowed: 0 to %d", c.Rank, rankMax-1)
	case len(c.Key) < keyMin:
		return at, fmt.Errorf("key of %d bytes; allowed: %d or more", len(c.Key), keyMin)
	case c.Silence < SilenceMin:
		return at, fmt.Errorf("silence of %v; allowed: %v or more", c.Silence, SilenceMin)
	case c.Suspect == nil || c.Alive == nil:
		return at, errors.New("nobody to tell the news; allowed: functions Suspect and Alive")
	}
	return at, nil
}

// settings returns memberlist's configuration. Every duration is a fraction or a multiple of the
// silence S; the rest is memberlist's preset for local networks. With a SuspicionMult of 4, two
// confirmations by others shorten the suspicion from 0.8 S to 0.4 S.
func (d *Detector) settings(cfg detect.Outside, at netip.AddrPort, key []byte) *memberlist.Config {
	m := memberlist.DefaultLANConfig()
	m.Name = name(cfg.Rank, cfg.Incarnation)
	m.BindAddr, m.BindPort, m.AdvertisePort = at.Addr().String(), int(at.Port()), int(at.Port())
	m.SecretKey = key
	m.ProbeInterval = cfg.Silence / 10
	m.ProbeTimeout = cfg.Silence / 20
	m.SuspicionMult = 4
	m.SuspicionMaxTimeoutMult = 2
	m.GossipInterval = cfg.Silence / 50
	m.GossipToTheDeadTime = 10 * cfg.Silence // they may only have been stopped, and refute it
	m.PushPullInterval = 3 * cfg.Silence     // delivers what gossip missed
	m.TCPTimeout = cfg.Silence
	m.DNSConfigPath = "" // addresses are numbers
	m.Events, m.Alive = d.news, d.news
	m.Logger = log.New(logged{cfg.Logger}, "", 0)
	return m
}

// Address returns where the others meet this process.
func (d *Detector) Address() string {
	n := d.list.LocalNode()
	ip, _ := netip.AddrFromSlice(n.Addr)
	return netip.AddrPortFrom(ip.Unmap(), n.Port).String()
}

// Meet introduces the process at address. It does not wait: the two will exchange all that either
// knows. Meet drops invalid addresses and those beyond what the queue holds; it does not meet known
// members again.
func (d *Detector) Meet(address string) {
	if _, err := netip.ParseAddrPort(address); err != nil {
		return
	}
	select {
	case d.meet <- address:
	default:
	}
}

// introduce meets the addresses passed to Meet, each a few times if need be.
func (d *Detector) introduce() {
	for {
		select {
		case <-d.quit:
			return
		case address := <-d.meet:
			d.greet(address)
		}
	}
}

// A process that cannot be met yet may still be starting.
const (
	greetings  = 5
	greetAgain = 100 * time.Millisecond // doubles after each attempt
)

func (d *Detector) greet(address string) {
	pause := greetAgain
	for range greetings {
		if slices.ContainsFunc(d.list.Members(), func(n *memberlist.Node) bool { return n.Address() == address }) {
			return // a live member has this address
		}
		if n, _ := d.list.Join([]string{address}); n > 0 {
			return
		}
		select {
		case <-d.quit:
			return
		case <-time.After(pause):
			pause *= 2
		}
	}
}

// Close ends the detector without notifying the others, who come to suspect this process; they know
// from elsewhere that it has returned and must not be missed. After Close the detector reports nothing
// more, and its sockets and goroutines are gone, except for those of memberlist that wait for the
// answer to a last probe: they end within S.
func (d *Detector) Close() error {
	var err error
	d.end.Do(func() {
		close(d.quit)
		d.news.stop()
		err = d.list.Shutdown()
		d.wg.Wait()
	})
	return err
}

// logged passes memberlist's lines to a logger, all at debug level: a stranger that connects must not
// be able to fill a log.
type logged struct{ to *slog.Logger }

func (l logged) Write(line []byte) (int, error) {
	if l.to != nil {
		l.to.Debug(strings.TrimSpace(string(line)))
	}
	return len(line), nil
}

var _ io.Writer = logged{}

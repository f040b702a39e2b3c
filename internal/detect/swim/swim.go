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

// Bounds of what a detector is given.
const (
	SilenceMin = 500 * time.Millisecond // a probe has a twentieth of it
	keyMin     = 16                     // bytes
	rankMax    = 1 << 20
)

// Detector is the part of one process.
type Detector struct {
	list *memberlist.Memberlist
	news *news

	meet chan string
	quit chan struct{}
	end  sync.Once
	wg   sync.WaitGroup
}

// meetMax is how many addresses may wait to be met. More are not needed: whom one
// meets tells of all the others.
const meetMax = 16

// Start starts the detector of a process: about 11 goroutines and 2 sockets. With a
// silence of S and up to 10 processes one that is stopped is suspected 0.5 to 1.2 S
// later, by all others within S/10 of each other; with n processes the time to
// refute, 0.4 to 0.8 S of it, is log10 n times as long. One that finds itself slow
// gives others more time, but where many processes wait for a processor for S/10,
// some are suspected that are merely late: S should be seconds.
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

// settings are memberlist's. What takes time is a part of the silence S; the rest
// is its preset for local networks. With the suspicion's multiple of 4, two
// confirmations by others shorten its time from 0.8 S to 0.4 S.
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
	m.GossipToTheDeadTime = 10 * cfg.Silence // they may have been stopped, and refute it
	m.PushPullInterval = 3 * cfg.Silence     // brings what gossip has missed
	m.TCPTimeout = cfg.Silence
	m.DNSConfigPath = "" // addresses are numbers
	m.Events, m.Alive = d.news, d.news
	m.Logger = log.New(logged{cfg.Logger}, "", 0)
	return m
}

// Address is where the others meet this process.
func (d *Detector) Address() string {
	n := d.list.LocalNode()
	ip, _ := netip.AddrFromSlice(n.Addr)
	return netip.AddrPortFrom(ip.Unmap(), n.Port).String()
}

// Meet names the address of another process. It does not wait: the two will be
// introduced, with all that either knows. What is more than can wait is dropped,
// and so is an address that is none; members that are known already are not met
// again.
func (d *Detector) Meet(address string) {
	if _, err := netip.ParseAddrPort(address); err != nil {
		return
	}
	select {
	case d.meet <- address:
	default:
	}
}

// introduce meets those that were named, each a few times if need be.
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
	greetAgain = 100 * time.Millisecond // then twice as long, and so on
)

func (d *Detector) greet(address string) {
	pause := greetAgain
	for range greetings {
		if slices.ContainsFunc(d.list.Members(), func(n *memberlist.Node) bool { return n.Address() == address }) {
			return // a live member has it
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

// Close ends the detector, without a word to the others, who come to suspect this
// process: that it has returned, and is not to be missed, they know from elsewhere.
// When Close has returned, nothing is told any more, and its sockets and goroutines
// are gone, but for those of memberlist that wait for the answer to a last probe:
// they end within S.
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

// logged hands memberlist's lines to a logger. They are all debugging: a stranger
// who knocks must not be able to fill a log.
type logged struct{ to *slog.Logger }

func (l logged) Write(line []byte) (int, error) {
	if l.to != nil {
		l.to.Debug(strings.TrimSpace(string(line)))
	}
	return len(line), nil
}

var _ io.Writer = logged{}

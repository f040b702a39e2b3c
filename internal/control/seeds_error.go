package control

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/wire"
)

// seedPatience is how long a process looks for others when no seed is usable.
const seedPatience = 10 * time.Second

// seedsError is why the seeds have not led to the coordinator, in one line that says what to do.
type seedsError struct {
	place    Place
	seeds    []string
	errs     []error // by seed; nil: a process of the job is there
	hopeless bool    // no seed is usable
}

func (e *seedsError) add(seed string, err error) {
	e.seeds, e.errs = append(e.seeds, seed), append(e.errs, err)
}

func (e *seedsError) Unwrap() []error {
	return slices.DeleteFunc(slices.Clone(e.errs), func(err error) bool { return err == nil })
}

func (e *seedsError) Error() string {
	if len(e.seeds) == 0 {
		return "nobody of another host is there"
	}
	var unknown, words []string
	same := map[string][]string{} // the seeds with the same error
	strange := false
	for i, err := range e.errs {
		switch {
		case err == nil:
		case e.place.SeedsFrom != "" && isUnknown(err):
			host, _, _ := net.SplitHostPort(e.seeds[i])
			unknown = append(unknown, host)
		default:
			if same[err.Error()] == nil {
				words = append(words, err.Error())
			}
			same[err.Error()] = append(same[err.Error()], e.seeds[i])
			strange = strange || isStrange(err)
		}
	}
	for i, text := range words {
		words[i] = fmt.Sprintf("at %s: %s", strings.Join(same[text], ", "), text)
	}
	if unknown != nil {
		words = append(words, fmt.Sprintf("%s names %s, but that does not resolve on this node; allowed: names that do, or %s=ADDRESS:PORT,… of some nodes",
			e.place.SeedsFrom, strings.Join(unknown, ", "), VarCoordinator))
	}
	if strange {
		words = append(words, e.place.remedy())
	}
	return strings.Join(words, "; ")
}

// remedy says what to do about a seed where another program listens.
func (p Place) remedy() string {
	host, _ := os.Hostname()
	key := fmt.Sprintf("if the key (%s or %s) is not the same on all hosts, make it so", VarKeyFile, VarKey)
	if p.KeyFile != "" {
		key = fmt.Sprintf("if nodes do not share %s (this is %s), set %s to a file that they do", p.KeyFile, cmp.Or(p.Node, host), VarKeyFile)
	}
	if p.Rendezvous != "" { // the kernel chooses the ports
		return key
	}
	port := VarCoordinator
	if p.SeedsFrom != "" {
		port = VarPort
	}
	return fmt.Sprintf("%s; if another program has the port, set another with %s", key, port)
}

// sized reports whether the user has told this process, and all others, how many processes the job has.
func (c *Client) sized() bool { return c.place.How == ManualHow && c.meet == nil && c.place.Size > 0 }

// otherSize is the error that the job at an address has another size.
func (c *Client) otherSize(size int, address string) error {
	return fmt.Errorf("%w: the job has %d processes, and here it is %s=%d; allowed: the same in all processes; if another job with the same key runs at %s, %s",
		errSize, size, VarSize, c.place.Size, c.seedAt(address), c.place.evade())
}

// notFound is the error of a process that has not joined its job within that time.
func (c *Client) notFound(within time.Duration, err error) error {
	if c.taken != "" && errors.Is(err, wire.Crossed) && c.place.How != RunHow && c.place.Coordinator != controlPath(c.place.Dir) {
		return fmt.Errorf("%w at %s, for %v: a process of rank %d runs already, or another job with the same key runs there: %s",
			wire.Crossed, c.taken, within, c.place.Rank, c.place.evade())
	}
	return fmt.Errorf("no coordinator at %s within %v: %w", c.place.Coordinator, within, err)
}

// evade says what to do if another job has the addresses of this one.
func (p Place) evade() string {
	what := "other ports in " + VarCoordinator
	if p.Rendezvous != "" {
		what = "another name in " + VarRendezvous
	}
	return "set " + what + ", or wait until it has ended"
}

// seedAt returns the address at which others find the listener at an address, as the user wrote it.
func (c *Client) seedAt(address string) string {
	if address != controlPath(c.place.Dir) {
		return address
	}
	if c.ownSeed >= 0 && c.place.Seeds != nil {
		return c.place.Seeds[c.ownSeed]
	}
	return c.place.Coordinator
}

// isStrange reports whether the listener at a seed does not belong to the job.
func isStrange(err error) bool {
	var clear tls.RecordHeaderError
	return errors.Is(err, wire.ErrUnanswered) || errors.Is(err, wire.ErrStranger) || errors.As(err, &clear) || errors.Is(err, syscall.EADDRINUSE)
}

// isUnknown reports whether the name of a seed does not resolve.
func isUnknown(err error) bool {
	var e *net.DNSError
	return errors.As(err, &e) && e.IsNotFound
}

// unnamed returns the addresses whose names do not resolve, or of which no server of names says anything. An error that is not of several seeds is that of address.
func unnamed(err error, address string) (at []string) {
	var several *seedsError
	if !errors.As(err, &several) {
		several = &seedsError{seeds: []string{address}, errs: []error{err}}
	}
	for i, err := range several.errs {
		if errors.As(err, new(*net.DNSError)) {
			at = append(at, several.seeds[i])
		}
	}
	return at
}

// unnamedAfter is how long names that do not resolve are not worth a warning: in Kubernetes they resolve late.
var unnamedAfter = 5 * time.Second

// tellUnnamed warns, once, of addresses whose names do not resolve. The process looks for others since began, for at most that long. Names that
// the user has not given are told of when it gives up.
func (c *Client) tellUnnamed(at []string, began time.Time, most time.Duration) {
	if len(at) == 0 || c.place.SeedsFrom != "" || time.Since(began) < unnamedAfter {
		return
	}
	c.unnamed.Do(func() {
		c.log.Warn("control: names in "+VarCoordinator+" do not resolve here; this process goes on trying", "at", strings.Join(at, ","), "for", (most - time.Since(began)).Round(time.Second))
	})
}

// seedJudge remembers its verdicts on seeds.
type seedJudge struct{ useless map[string]error }

// hopeless reports whether no seed that was tried is usable: a stranger listens there, or its name does not resolve. A
// name that the user gave may resolve later, as in Kubernetes. If a stranger listened at a seed and nothing does any more, it was a process of the job with another key
// that has given up: the earlier verdict still counts.
func (j *seedJudge) hopeless(e *seedsError) bool {
	if j.useless == nil {
		j.useless = map[string]error{}
	}
	hopeless := len(e.seeds) > 0
	for i, seed := range e.seeds {
		switch err := e.errs[i]; {
		case err == nil:
			delete(j.useless, seed)
		case isStrange(err) || e.place.SeedsFrom != "" && isUnknown(err):
			j.useless[seed] = err
		}
		if j.useless[seed] != nil {
			e.errs[i] = j.useless[seed]
		} else {
			hopeless = false
		}
	}
	return hopeless
}

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

// seedPatience is how long a process looks for others at seeds none of which is of use.
const seedPatience = 10 * time.Second

// seedsError is why seeds have not led to the coordinator, in one line that says what to do.
type seedsError struct {
	place    Place
	seeds    []string
	errs     []error // of each; nil: somebody of the job is there
	hopeless bool    // none of them is of use
}

func (e *seedsError) add(seed string, err error) {
	e.seeds, e.errs = append(e.seeds, seed), append(e.errs, err)
}

func (e *seedsError) Unwrap() []error {
	return slices.DeleteFunc(slices.Clone(e.errs), func(err error) bool { return err == nil })
}

func (e *seedsError) Error() string {
	var unknown, words []string
	same := map[string][]string{} // seeds by what is wrong with them
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

// remedy is what to do about a seed where somebody else is.
func (p Place) remedy() string {
	host, _ := os.Hostname()
	key := fmt.Sprintf("if the key (%s or %s) is not the same on all hosts, make it so", VarKeyFile, VarKey)
	if p.KeyFile != "" {
		key = fmt.Sprintf("if nodes do not share %s (this is %s), set %s to a file that they do", p.KeyFile, cmp.Or(p.Node, host), VarKeyFile)
	}
	port := VarCoordinator
	if p.SeedsFrom != "" {
		port = VarPort
	}
	return fmt.Sprintf("%s; if another program has the port, set another with %s", key, port)
}

// isStrange reports whether the one who listens at a seed is none of the job.
func isStrange(err error) bool {
	var clear tls.RecordHeaderError
	return errors.Is(err, wire.ErrUnanswered) || errors.Is(err, wire.ErrStranger) || errors.As(err, &clear) || errors.Is(err, syscall.EADDRINUSE)
}

// isUnknown reports whether a seed has a name that means nothing.
func isUnknown(err error) bool {
	var e *net.DNSError
	return errors.As(err, &e) && e.IsNotFound
}

// seedJudge judges seeds again and again.
type seedJudge struct{ useless map[string]error }

// hopeless reports whether none of the seeds that were tried is of use: a stranger is there, or its name means nothing. A
// name that the user gave may come to mean something, as in Kubernetes. Where a stranger was and nobody listens any more, one of the job
// has given up, with another key: what was said of it counts on.
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

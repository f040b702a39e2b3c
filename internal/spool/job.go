package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/detect"
	"github.com/coppice-go/coppice/internal/posix"
)

const (
	aboutName    = "about"
	keeperName   = "keeper"
	resultName   = "result"
	seenName     = "seen"
	attachedName = "attached"
	logName      = "log"
)

// Bounds of what is kept of jobs that have ended.
const (
	AgeMax   = 7 * 24 * time.Hour
	BytesMax = 1 << 30 // of all jobs together
)

// Job is the directory of a job.
type Job struct {
	Name string
	path string
}

// About is what a job is.
type About struct {
	Command string    `json:"command"`
	Began   time.Time `json:"began"`
	Hosts   []Host    `json:"hosts,omitempty"` // where its keepers are; nil: here
	SSH     []string  `json:"ssh,omitempty"`   // the command that calls them
	Agent   []string  `json:"agent,omitempty"`
}

// Host is one of the hosts of a job.
type Host struct {
	Name  string `json:"name"`
	Ranks []int  `json:"ranks"`
}

// Result is how a job ended.
type Result struct {
	Exit    int             `json:"exit"`             // the exit code
	Signal  syscall.Signal  `json:"signal,omitempty"` // the signal from outside that ended the job; 0: none
	Started bool            `json:"started"`          // whether its processes were started
	Error   string          `json:"error,omitempty"`  // why they were not, or what went wrong, in a line
	Report  json.RawMessage `json:"report,omitempty"` // as the launcher prints it
}

// Code returns the exit code of a command that stands for the job: that of a shell, if a signal ended the job.
func (r *Result) Code() int {
	if r.Signal != 0 && r.Signal != syscall.SIGQUIT {
		return 128 + int(r.Signal)
	}
	return r.Exit
}

var (
	ErrUnknown  = errors.New("no such job")
	ErrKilled   = errors.New("its keeper was killed")
	ErrAttached = errors.New("attached already")
)

// Root returns where the jobs of this user are.
func Root() (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("detached jobs are kept in the home directory: %w", err)
	}
	root := filepath.Join(home, ".coppice", "jobs")
	for _, dir := range []string{filepath.Dir(root), root} {
		if err := ensure(dir); err != nil {
			return "", fmt.Errorf("detached jobs are kept in %s: %w", root, err)
		}
	}
	return root, nil
}

// ensure creates a directory that no other user can access, and checks it.
func ensure(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if uid, ok := posix.Owner(info); !info.IsDir() || ok && uid != os.Getuid() || info.Mode().Perm() != 0o700 {
		return fmt.Errorf("%s is none that this user alone can reach; allowed: a directory of mode 0700", dir)
	}
	return nil
}

// New creates the directory of a job. Without a name, it draws one.
func New(root, name string, about About) (*Job, error) {
	for drawn := name == ""; ; {
		if drawn {
			name = strconv.FormatUint(uint64(rand.Uint32()), 10)
		}
		j := &Job{Name: name, path: filepath.Join(root, name)}
		switch err := os.Mkdir(j.path, 0o700); {
		case err == nil:
			return j, j.write(aboutName, about)
		case !drawn || !errors.Is(err, fs.ErrExist):
			return nil, err
		}
	}
}

// Open finds a job.
func Open(root, name string) (*Job, error) {
	j := &Job{Name: name, path: filepath.Join(root, name)}
	if name == "" || strings.ContainsAny(name, "/\\") || name[0] == '.' {
		return nil, ErrUnknown
	}
	if _, err := os.Lstat(filepath.Join(j.path, aboutName)); err != nil {
		return nil, ErrUnknown
	}
	return j, nil
}

// At returns the job whose directory has a path.
func At(path string) *Job { return &Job{Name: filepath.Base(path), path: path} }

// Path returns the path of its directory.
func (j *Job) Path() string { return j.path }

// List returns all jobs, in the order in which they began.
func List(root string) (jobs []*Job) {
	entries, _ := os.ReadDir(root)
	began := map[*Job]time.Time{}
	for _, e := range entries {
		if j, err := Open(root, e.Name()); err == nil {
			about, _ := j.About()
			began[j], jobs = about.Began, append(jobs, j)
		}
	}
	slices.SortStableFunc(jobs, func(a, b *Job) int { return began[a].Compare(began[b]) })
	return jobs
}

// About returns what the job is.
func (j *Job) About() (a About, err error) {
	if err = j.read(aboutName, &a); err != nil {
		err = fmt.Errorf("job %s: its description is damaged: %w; coppice jobs --remove %s removes it", j.Name, err, j.Name)
	}
	return a, err
}

// Result returns how the job ended; nil: it has not, or its keeper was killed.
func (j *Job) Result() *Result {
	var r Result
	if j.read(resultName, &r) != nil {
		return nil
	}
	return &r
}

// SetResult records how the job ended.
func (j *Job) SetResult(r *Result) error { return j.write(resultName, r) }

// Seen returns how much of the output of each host was shown. A job without hosts uses "".
func (j *Job) Seen() (at map[string]int64) {
	if j.read(seenName, &at) != nil || at == nil {
		return map[string]int64{}
	}
	return at
}

// SetSeen records how much of the output was shown.
func (j *Job) SetSeen(at map[string]int64) error { return j.write(seenName, at) }

func (j *Job) read(name string, to any) error {
	text, err := os.ReadFile(filepath.Join(j.path, name))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}

// write writes a file, all of it at once.
func (j *Job) write(name string, from any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(j.path, "."+name+"-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(j.path, name))
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// Runs reports whether the keeper of the job is alive.
func (j *Job) Runs() bool { return posix.Locked(filepath.Join(j.path, keeperName)) }

// take locks a file while this process lives and the file is open, and writes the process id there.
func (j *Job) take(name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(j.path, name), os.O_RDWR|os.O_CREATE|posix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	for tries := 0; ; tries++ { // a process that checks the lock holds it for a moment
		if err = posix.Flock(f, posix.LOCK_EX|posix.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) || tries == 100 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(strconv.AppendInt(nil, int64(os.Getpid()), 10), 0)
	}
	if errors.Is(err, syscall.ENOSPC) && name == attachedName { // the lock is what counts
		err = nil
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// taker returns the process id in a file; 0: unknown.
func (j *Job) taker(name string) int {
	text, _ := os.ReadFile(filepath.Join(j.path, name))
	pid, _ := strconv.Atoi(string(text))
	return pid
}

// Attach makes this process the only one that shows the output, until detach is called.
func (j *Job) Attach() (detach func(), err error) {
	f, err := j.take(attachedName)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w, by process %d", ErrAttached, j.taker(attachedName))
	}
	if err != nil {
		return nil, err
	}
	return func() { f.Close() }, nil
}

// Signal sends a signal to the keeper. It returns ErrKilled if the keeper is dead.
func (j *Job) Signal(s syscall.Signal) error {
	pid := j.taker(keeperName)
	pidfd, err := detect.OpenPidfd(pid)
	if errors.Is(err, errors.ErrUnsupported) && j.Runs() {
		return posix.Kill(pid, s)
	}
	if err != nil {
		return ErrKilled
	}
	defer posix.Close(pidfd)
	if !j.Runs() || j.taker(keeperName) != pid { // the pid may be another process's by now
		return ErrKilled
	}
	return detect.KillPidfd(pidfd, s)
}

// Stopped reports whether the keeper is stopped, as by SIGSTOP, so far as the kernel says.
func (j *Job) Stopped() bool { return j.Runs() && detect.Inspect(j.taker(keeperName)).Stopped }

// Log returns a file for what the keeper itself writes, if it crashes.
func (j *Job) Log() (*os.File, error) {
	return os.OpenFile(filepath.Join(j.path, logName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// Remove removes the job.
func (j *Job) Remove() error {
	// Without this file it is no longer a job, whatever becomes of the rest.
	if err := os.Remove(filepath.Join(j.path, aboutName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(j.path)
}

// Sweep removes jobs that have ended: those older than AgeMax, and the oldest if all together exceed BytesMax.
func Sweep(root string) { sweep(root, time.Now().Add(-AgeMax), BytesMax) }

func sweep(root string, before time.Time, most int64) {
	jobs := List(root)
	for _, j := range slices.Backward(jobs) { // the newest first
		bytes, latest := j.size()
		most -= bytes
		if (latest.Before(before) || most < 0) && !j.open() {
			_ = j.Remove() // the next sweep tries again
			most += bytes
		}
	}
}

// openMax is how long a job on other hosts is kept if nobody asks for it.
const openMax = 365 * 24 * time.Hour

// open reports whether the job may still run, as far as is known here.
func (j *Job) open() bool {
	about, _ := j.About()
	start := time.Minute // until its keeper has begun
	if about.Hosts != nil {
		start = openMax
	}
	return j.Runs() || posix.Locked(filepath.Join(j.path, attachedName)) || j.Result() == nil && time.Since(about.Began) < start
}

// size returns how much space a job takes, and when it was last written to.
func (j *Job) size() (bytes int64, latest time.Time) {
	entries, _ := os.ReadDir(j.path)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			bytes += info.Size()
			if info.ModTime().After(latest) {
				latest = info.ModTime()
			}
		}
	}
	return bytes, latest
}

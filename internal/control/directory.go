package control

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/posix"
)

// The job's directory on a host. It holds the key, so only its owner may access it.

const (
	keyName    = "key"
	socketName = "control.sock"
	usersName  = "users.lock"   // locked, shared, by every process that uses the directory
	hostName   = "control.lock" // locked by the coordinator
	dirPrefix  = "coppice-"

	settingsName = "settings" // of a launcher that has gone
)

// dirMax is the longest path of a directory whose sockets have paths that the
// kernel accepts: 103 bytes everywhere, and names up to 12 bytes long.
const dirMax = 103 - 1 - len(socketName)

func controlPath(dir string) string { return filepath.Join(dir, socketName) }

// MakeDir creates the directory of a new job, for a launcher. The server removes
// it when it is closed. MakeDir also removes the directories of jobs all of whose
// processes were killed.
func MakeDir(getenv func(string) string) (string, error) {
	parent, err := sweptParent(getenv)
	if err != nil {
		return "", err
	}
	return os.MkdirTemp(parent, dirPrefix+"*")
}

// NamedDir returns the directory of a new job that has its name from elsewhere (JobName). It does not create the directory.
func NamedDir(getenv func(string) string, name string) (string, error) {
	parent, err := sweptParent(getenv)
	return filepath.Join(parent, dirPrefix+name), err
}

// Sweep removes what jobs whose processes were all killed have left on this host.
func Sweep(getenv func(string) string) { _, _ = sweptParent(getenv) }

// sweptParent is parentDir, without what jobs whose processes were all killed have left there.
func sweptParent(getenv func(string) string) (string, error) {
	parent, err := parentDir(getenv)
	if err == nil {
		sweep(parent)
	}
	return parent, err
}

// Keep keeps a directory from being swept until leave is called, which removes it unless another process
// uses it: for an agent, which reads there what the dead have left.
func Keep(dir string) (leave func(), err error) {
	users, err := lock(dir, usersName, posix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	return func() { users.leave(keepPatience) }, nil
}

// keepPatience is how long a process that has kept a directory tries to be the last to leave it.
const keepPatience = time.Second

// Furnish creates the directory of a job on the host of an agent, with the key and, if its launcher is about to go, the launcher's
// settings. It keeps the directory like Keep. Two agents of such a job on one host share one directory.
func Furnish(dir string, key, settings []byte) (leave func(), err error) {
	if leave, err = Keep(dir); err != nil {
		return nil, err
	}
	err = writeKey(dir, key, os.Rename)
	if err == nil && settings != nil {
		err = writeFile(dir, settingsName, settings, os.Rename)
	}
	if err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// sweep removes the directories that were in use and no longer are.
func sweep(parent string) {
	entries, _ := os.ReadDir(parent)
	for _, e := range entries {
		dir := filepath.Join(parent, e.Name())
		if !strings.HasPrefix(e.Name(), dirPrefix) || checkDir(dir) != nil {
			continue
		}
		if strings.HasSuffix(dir, goneSuffix) { // the process that was removing it was killed
			os.RemoveAll(dir)
			continue
		}
		f, err := os.OpenFile(filepath.Join(dir, usersName), os.O_RDWR|posix.O_NOFOLLOW, 0)
		if err == nil {
			(&lease{dir, f}).leave(0)
		} else if info, e := e.Info(); errors.Is(err, fs.ErrNotExist) && e == nil && time.Since(info.ModTime()) > unusedMax {
			os.Remove(dir) // if it is empty. Its creator, if it is alive after all, creates it again (lock)
		}
	}
}

// unusedMax is the age up to which a directory without a users file may be
// about to be used.
const unusedMax = 10 * time.Minute

// derivedDir returns the directory of a job that a scheduler started: the same for
// all of its processes on a host.
func derivedDir(getenv func(string) string, name []string) (string, error) {
	parent, err := parentDir(getenv)
	sum := sha256.Sum256([]byte(strings.Join(name, "\x00")))
	return filepath.Join(parent, dirPrefix+hex.EncodeToString(sum[:10])), err
}

// parentMax is the longest path of a directory in which directories of jobs are made.
const parentMax = dirMax - 1 - len(dirPrefix) - 20

// parents are where directories of jobs are created, in the first that is usable: in memory
// rather than on a disk, for which the records would have to wait. TMPDIR and
// XDG_RUNTIME_DIR do not count: slurmstepd sets the first only for the first task of a node,
// and the second is removed when its user logs out.
var parents = []string{"/dev/shm", "/tmp"}

// BadJobsDir is the error of a directory in VarParent that cannot hold directories of jobs. Whoever has set it is to blame.
type BadJobsDir struct{ error }

// CheckJobsDir returns a BadJobsDir if VarParent is set to one.
func CheckJobsDir(getenv func(string) string) error {
	dir := getenv(VarParent)
	if dir == "" {
		return nil
	}
	if why := flaw(dir); why != "" {
		return BadJobsDir{fmt.Errorf("%s=%q %s; allowed: the absolute path, of up to %d bytes, of a directory in which this user can make others; or unset it", VarParent, dir, why, parentMax)}
	}
	return nil
}

// flaw says why directories of jobs cannot be made in a directory; "": they can. It tries, since a file system such as /proc has
// none, whatever its permissions. A full disk is no fault of the directory.
func flaw(dir string) string {
	info, err := os.Stat(dir)
	switch {
	case !filepath.IsAbs(dir):
		return "is not absolute"
	case len(dir) > parentMax:
		return fmt.Sprintf("has %d bytes", len(dir))
	case errors.Is(err, fs.ErrNotExist):
		return "does not exist"
	case err == nil && !info.IsDir():
		return "is not a directory"
	case err == nil && !posix.Usable(dir):
		return "is not open to this user for reading and writing"
	}
	if err == nil {
		var trial string
		if trial, err = os.MkdirTemp(dir, dirPrefix+"*"); err == nil {
			err = os.Remove(trial)
		}
	}
	if err == nil || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return ""
	}
	if wrapped := (*fs.PathError)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return "takes no directories: " + err.Error()
}

// parentDir returns where directories of jobs are created: the same for all processes of this
// user on this host that have the same VarParent.
func parentDir(getenv func(string) string) (string, error) {
	if dir := getenv(VarParent); dir != "" {
		return dir, CheckJobsDir(getenv)
	}
	for _, dir := range parents {
		if usable(dir) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("the job's directory cannot be made in %s; set %s to a directory in which it can", strings.Join(parents, " or "), VarParent)
}

// usable reports whether a directory can be made in this one.
func usable(dir string) bool {
	info, err := os.Stat(dir)
	return filepath.IsAbs(dir) && err == nil && info.IsDir() && posix.Usable(dir)
}

// checkDir reports an error if another user may have access to a directory.
func checkDir(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	switch uid, ok := posix.Owner(info); {
	case !info.IsDir():
		return fmt.Errorf("%s is a %v; allowed: a directory", dir, info.Mode().Type())
	case ok && uid != os.Getuid():
		return fmt.Errorf("%s belongs to user %d; allowed: our own, %d", dir, uid, os.Getuid())
	case info.Mode().Perm() != 0o700:
		return fmt.Errorf("%s has mode %#o; allowed: 0700", dir, info.Mode().Perm())
	}
	return nil
}

// ensureDir makes a directory if it is missing and checks it.
func ensureDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return checkDir(dir)
}

// readKey reads the key in a directory that was checked.
func readKey(dir string) ([]byte, error) {
	key, err := os.ReadFile(filepath.Join(dir, keyName))
	if err == nil && len(key) != keyLen {
		return nil, fmt.Errorf("%s: a key of %d bytes; allowed: %d", filepath.Join(dir, keyName), len(key), keyLen)
	}
	return key, err
}

// writeKey puts the key into a directory, all of it at once: by os.Rename in place of
// the one a dead job may have left, or by os.Link only if there is none.
func writeKey(dir string, key []byte, put func(from, to string) error) error {
	return writeFile(dir, keyName, key, put)
}

func writeFile(dir, name string, content []byte, put func(from, to string) error) error {
	f, err := os.CreateTemp(dir, name+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return put(f.Name(), filepath.Join(dir, name))
}

func newKey() []byte {
	key := make([]byte, keyLen)
	rand.Read(key) // never fails
	return key
}

// lease is a lock on a file of a directory. The kernel releases it with the
// process.
type lease struct {
	dir  string
	file *os.File
}

var errTaken = errors.New("taken")

// triesMax bounds how often, and so for how many milliseconds, a lock is tried.
const triesMax = 5000

// lock creates the directory if needed and locks the named file in it.
func lock(dir, name string, how int) (*lease, error) {
	for tries := 0; ; tries++ {
		if err := ensureDir(dir); err != nil && (!errors.Is(err, fs.ErrNotExist) || tries >= triesMax) {
			return nil, err
		}
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|posix.O_NOFOLLOW, 0o600)
		if errors.Is(err, fs.ErrNotExist) && tries < triesMax {
			continue // the last process of another job has just removed the directory
		} else if err != nil {
			return nil, err
		}
		err = posix.Flock(f, how|posix.LOCK_NB)
		if err == nil && stillThere(f) {
			return &lease{dir, f}, nil
		}
		f.Close()
		switch {
		case errors.Is(err, syscall.EWOULDBLOCK) && how == posix.LOCK_SH && tries < triesMax:
			time.Sleep(time.Millisecond) // another process is about to remove the directory
		case errors.Is(err, syscall.EWOULDBLOCK):
			return nil, errTaken
		case err != nil:
			return nil, err
		}
	}
}

// stillThere reports whether a file still has the name it was opened by.
func stillThere(f *os.File) bool { return hasName(f, f.Name()) }

// hasName reports whether a file is the one at a path.
func hasName(f *os.File, path string) bool {
	opened, err1 := f.Stat()
	named, err2 := os.Lstat(path)
	return err1 == nil && err2 == nil && os.SameFile(opened, named)
}

func (l *lease) release() {
	if l != nil {
		l.file.Close()
	}
}

// leave ends the use of the directory; the last process to leave removes it. leave tries
// for a while to be the last: the kernel releases the locks of a killed process a
// little after its connections.
func (l *lease) leave(patience time.Duration) {
	if l == nil {
		return
	}
	defer l.file.Close()
	for until := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		err := posix.Flock(l.file, posix.LOCK_EX|posix.LOCK_NB)
		if err == nil && stillThere(l.file) {
			removeDir(l.dir)
		}
		if err == nil || !stillThere(l.file) || time.Now().After(until) {
			return
		}
	}
}

// goneSuffix is the suffix of a directory that is being removed.
const goneSuffix = ".gone"

// removeDir removes a job's directory, and nothing else. The directory loses its
// name first, so no process finds half of it.
func removeDir(dir string) {
	if !strings.HasPrefix(filepath.Base(dir), dirPrefix) || checkDir(dir) != nil {
		return
	}
	gone := dir + goneSuffix
	os.RemoveAll(gone) // of an earlier job of the name, whose remover was killed
	if os.Rename(dir, gone) == nil {
		dir = gone
	}
	os.RemoveAll(dir)
}

package store

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/coppice-go/coppice/internal/posix"
)

// folder is a directory to which other users may be able to write. Nothing in it leads out of it
// (os.Root). An entry that belongs neither to this user nor to root, or is a symbolic link, is not
// read: the error names it. Arguments are names within the folder; errors have whole paths.
type folder struct {
	path string
	root *os.Root
}

// openFolder opens a directory and creates it if it is missing. On the way there it follows only links
// of this user and of root.
func openFolder(path string) (*folder, error) {
	if err := checkLinks(path); err != nil {
		return nil, err
	}
	if err := makeDir(path); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	f := &folder{path, root}
	info, err := root.Stat(".")
	if err == nil {
		err = checkOwner(path, info)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return f, nil
}

// checkLinks refuses a path that contains a link of another user.
func checkLinks(path string) error {
	path, err := filepath.Abs(path)
	for above := ""; err == nil && path != above; above, path = path, filepath.Dir(path) {
		info, err := os.Lstat(path)
		if err == nil && info.Mode().Type() == fs.ModeSymlink {
			err = checkOwner(path, info)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

// checkOwner refuses files of other users, except root.
func checkOwner(path string, info fs.FileInfo) error {
	uid, ok := posix.Owner(info)
	if own := os.Geteuid(); ok && uid != 0 && uid != own {
		return fmt.Errorf("%s belongs to user %d; allowed: what user %d or root has made, so choose another directory for Stored", path, uid, own)
	}
	return nil
}

// check refuses an entry that has another type or belongs to another user.
func (f *folder) check(name string, want fs.FileMode) error {
	info, err := f.root.Lstat(name)
	if err != nil {
		return f.whole(err)
	}
	path := filepath.Join(f.path, name)
	if is := info.Mode().Type(); is != want {
		return fmt.Errorf("%s is a %s; allowed: a %s that a job has made", path, describe(is), describe(want))
	}
	return checkOwner(path, info)
}

func describe(t fs.FileMode) string {
	switch t {
	case 0:
		return "file"
	case fs.ModeDir:
		return "directory"
	case fs.ModeSymlink:
		return "symbolic link"
	}
	return "file of type " + t.String()
}

// whole adds the folder's path to an error of root that lacks it.
func (f *folder) whole(err error) error {
	whole := func(path string) string {
		if strings.HasPrefix(path, f.path) {
			return path
		}
		return filepath.Join(f.path, path)
	}
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		p.Op, p.Path = strings.TrimSuffix(p.Op, "at"), whole(p.Path)
	case errors.As(err, &l):
		l.Op, l.Old, l.New = strings.TrimSuffix(l.Op, "at"), whole(l.Old), whole(l.New)
	}
	return err
}

// makeDir makes a directory in the folder if it is missing.
func (f *folder) makeDir(name string) error {
	err := f.root.Mkdir(name, 0o700)
	if err == nil {
		return f.sync(".")
	}
	if errors.Is(err, fs.ErrExist) {
		err = f.check(name, fs.ModeDir)
	}
	return f.whole(err)
}

// open opens a file for reading.
func (f *folder) open(name string) (*os.File, error) {
	if err := f.check(name, 0); err != nil {
		return nil, err
	}
	file, err := f.root.Open(name)
	if err != nil {
		return nil, f.whole(err)
	}
	if opened, err := file.Stat(); err != nil || opened.Mode().Type() != 0 || checkOwner(name, opened) != nil { // it is not the file that was checked
		file.Close()
		return nil, fmt.Errorf("%s: another user changes the directory", filepath.Join(f.path, name))
	}
	return file, nil
}

// read reads the record of a file. The error names the file.
func (f *folder) read(name string) (r record, err error) {
	file, err := f.open(name)
	if err != nil {
		return r, err
	}
	defer file.Close()
	b, err := io.ReadAll(file)
	if err != nil {
		return r, f.whole(err)
	}
	if r, err = parse(b); err != nil {
		return r, fmt.Errorf("%s: %w", filepath.Join(f.path, name), err)
	}
	return r, nil
}

// head reads the header of a file, unchecked.
func (f *folder) head(name string) (h header, err error) {
	file, err := f.open(name)
	if err != nil {
		return h, err
	}
	defer file.Close()
	if err := binary.Read(file, binary.LittleEndian, &h); err != nil {
		return h, err
	}
	if string(h.Magic[:]) != magic {
		return h, ErrDamaged
	}
	return h, nil
}

// list lists a directory in the folder.
func (f *folder) list(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(f.root.FS(), name)
	return entries, f.whole(err)
}

// remove removes a file that another attempt may have removed.
func (f *folder) remove(name string) error {
	if err := f.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f.whole(err)
	}
	return nil
}

// write writes a record to a file and replaces what was there.
func (f *folder) write(name string, r *record) error {
	return f.put(name, r, f.root.Rename)
}

// create writes a record to a new file. If the file exists, create returns fs.ErrExist and leaves it as
// it is.
func (f *folder) create(name string, r *record) error {
	return f.put(name, r, func(part, name string) error {
		if err := f.root.Link(part, name); err != nil {
			return err
		}
		if err := f.root.Remove(part); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil // another attempt has cleared the shelf
	})
}

// partPrefix begins the names of incomplete files.
const partPrefix = ".part-"

// put writes a record under another name and has move give the file its own. An attempt of the task
// that begins meanwhile may take the file for an incomplete one and remove it: then put writes it once
// more.
func (f *folder) put(name string, r *record, move func(part, name string) error) error {
	for {
		cleared := false
		err := f.try(name, r, func(part, name string) error {
			err := move(part, name)
			cleared = errors.Is(err, fs.ErrNotExist)
			return err
		})
		if !cleared {
			return f.whole(err)
		}
	}
}

// try is one attempt of put. If the directory itself is gone, try fails before it moves a file.
func (f *folder) try(name string, r *record, move func(part, name string) error) (err error) {
	var random [8]byte
	rand.Read(random[:]) // never fails
	part := filepath.Join(filepath.Dir(name), partPrefix+hex.EncodeToString(random[:]))
	file, err := f.root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.root.Remove(part)
		}
	}()
	header, sum := r.frame()
	for _, b := range [][]byte{header, r.value, sum} {
		if _, err := file.Write(b); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := move(part, name); err != nil {
		return err
	}
	return f.sync(filepath.Dir(name))
}

// sync makes the names in a directory survive a crash of the machine.
func (f *folder) sync(name string) error {
	d, err := f.root.Open(name)
	if err != nil {
		return f.whole(err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// makeDir makes a directory, and those above it, that survive a crash of the machine.
func makeDir(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	above := filepath.Dir(path)
	if above != path {
		if err := makeDir(above); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d, err := os.Open(above)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

package hosts

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// lab is a directory that all hosts share: commands, and keys and settings of ssh.
type lab struct {
	dir   string
	logs  string       // where output of failed runs is kept; "": nowhere
	noSSH error        // why there can be no other hosts
	etcd  func() error // why there can be no etcd; the first row that needs one calls it
}

const (
	workHosts    = 4 // the hosts of jobs, with two processes each
	perHost      = 2
	launcherHost = workHosts // its number
	sshdPath     = "/usr/sbin/sshd"
)

// newLab builds the commands. Its directory is none of those that each host has for itself.
func newLab(logs string) (*lab, error) {
	dir, err := os.MkdirTemp("/var/tmp", "coppice-hosts-")
	if err != nil {
		return nil, err
	}
	l := &lab{dir: dir, logs: logs}
	l.etcd = sync.OnceValue(l.prepareEtcd)
	if err := l.build(); err != nil {
		l.close()
		return nil, err
	}
	l.noSSH = l.prepareSSH()
	return l, nil
}

// build puts commands into the directory: coppice, and this one as a program of jobs.
func (l *lab) build() error {
	if l.logs != "" {
		if err := os.MkdirAll(l.logs, 0o755); err != nil {
			return err
		}
	}
	if err := os.Mkdir(l.path("bin"), 0o755); err != nil {
		return err
	}
	build := exec.Command("go", "build", "-o", l.path("bin", "coppice"), "github.com/coppice-go/coppice/cmd/coppice")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building coppice, which must be done in its repository: %w: %s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	content, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	return os.WriteFile(l.path("bin", "program"), content, 0o755)
}

func (l *lab) close() { os.RemoveAll(l.dir) }

func (l *lab) path(names ...string) string {
	return filepath.Join(append([]string{l.dir}, names...)...)
}

// prepareSSH writes keys and settings for ssh, or returns why there can be no hosts.
func (l *lab) prepareSSH() error {
	if missing := missingCommands(); missing != nil {
		return fmt.Errorf("%s not installed: bash .ci/install-netns", strings.Join(missing, ", "))
	}
	ssh, err := exec.LookPath("ssh")
	if _, err2 := os.Stat(sshdPath); errors.Join(err, err2) != nil {
		return errors.New("no ssh or sshd: bash .ci/install-ssh")
	}
	// sshd changes to another user before a caller has logged in, and a user namespace of ours would
	// have only one.
	if users, err := os.ReadFile("/proc/self/uid_map"); err != nil || os.Getuid() != 0 || strings.Fields(string(users))[2] != "4294967295" {
		return errors.New("sshd needs to be started by root: run this as root")
	}
	for _, key := range []string{"key", "host-key"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", l.path(key)).CombinedOutput(); err != nil {
			return fmt.Errorf("ssh-keygen: %w: %s", err, out)
		}
	}
	for name, text := range map[string]string{
		// coppice run calls ssh with its own options; this file tells it where the hosts are.
		"bin/ssh": fmt.Sprintf("#!/bin/sh\nexec %s -F %s \"$@\"\n", ssh, l.path("ssh_config")),
		// This one drops an agent's notice that it has started its processes.
		"deaf/ssh":    fmt.Sprintf("#!/bin/sh\n%s \"$@\" | sed -u '/\"type\":\"started\"/d'\n", l.path("bin", "ssh")),
		"ssh_config":  l.sshConfig(),
		"sshd_config": l.sshdConfig(),
		// Some systems lock root's account, which without PAM also refuses keys.
		"shadow": "root:*:19000:0:99999:7:::\nsshd:*:19000:0:99999:7:::\n",
	} {
		mode := os.FileMode(0o600)
		if strings.HasSuffix(name, "/ssh") {
			mode = 0o755
		}
		if err := os.MkdirAll(filepath.Dir(l.path(name)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(l.path(name), []byte(text), mode); err != nil {
			return err
		}
	}
	return nil
}

func (l *lab) sshConfig() string {
	var b strings.Builder
	for i := range workHosts {
		fmt.Fprintf(&b, "Host host%d\n  HostName %s\n", i, addressOf(i))
	}
	fmt.Fprintf(&b, "Host *\n  User root\n  IdentityFile %s\n  IdentitiesOnly yes\n", l.path("key"))
	b.WriteString("  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n")
	return b.String()
}

func (l *lab) sshdConfig() string {
	return strings.Join([]string{
		"HostKey " + l.path("host-key"), "AuthorizedKeysFile " + l.path("key.pub"), "PermitRootLogin yes",
		"StrictModes no", "UsePAM no", "UseDNS no", "PidFile none", "PrintMotd no", "LogLevel ERROR",
		"SetEnv PATH=" + l.searchPath(), "",
	}, "\n")
}

// searchPath is where hosts find commands.
func (l *lab) searchPath() string {
	return l.path("bin") + ":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
}

// newNetwork makes the hosts, each with an sshd.
func (l *lab) newNetwork() (n *hostNetwork, err error) {
	// A shell that sshd starts always reads files in the user's home: hosts have an empty one.
	who, err := user.Current()
	if err != nil {
		return nil, err
	}
	if n, err = newHostNetwork(workHosts+1, "/dev/shm", "/tmp", "/run", who.HomeDir); err != nil {
		return nil, err
	}
	for i, h := range n.Hosts[:workHosts] {
		if err := l.startSSHD(h); err != nil {
			n.Close()
			return nil, err
		}
		if err := awaitPort(n.Hosts[launcherHost], addressOf(i)+":22"); err != nil {
			n.Close()
			return nil, err
		}
	}
	return n, nil
}

func (l *lab) startSSHD(h *host) error {
	prepare := fmt.Sprintf("mkdir -m 755 /run/sshd && mount --bind %s /etc/shadow", l.path("shadow"))
	if err := h.Run(exec.Command("sh", "-c", prepare)); err != nil {
		return err
	}
	sshd := exec.Command(sshdPath, "-D", "-f", l.path("sshd_config"))
	if err := h.Start(sshd); err != nil {
		return err
	}
	go func() { _ = sshd.Wait() }() // it ends with its host
	return nil
}

// awaitPort waits until a process listens at an address, as seen from a host.
func awaitPort(from *host, address string) error {
	var err error
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var c net.Conn
		from.Do(func() { c, err = net.DialTimeout("tcp", address, time.Second) })
		if err == nil {
			return c.Close()
		}
	}
	return fmt.Errorf("nobody listens: %w", err)
}

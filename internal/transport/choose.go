package transport

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
)

// HostID names the host as far as Unix sockets reach: the same boot of the same
// kernel, and the same files. A process tells it with its addresses.
var HostID = sync.OnceValue(func() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		name, _ := os.Hostname() // then nobody is on the same host as nobody
		return name
	}
	files, _ := os.Readlink("/proc/self/ns/mnt")
	return strings.TrimSpace(string(boot)) + " " + files
})

// ChooseVariable is the environment variable that overrules Choose: unix, tcp or
// tls.
const ChooseVariable = "COPPICE_TRANSPORT"

// Choose returns the address at which to reach a peer: a Unix socket on the same
// host, TLS on any other. Nothing goes to another host in clear unless
// COPPICE_TRANSPORT says so.
func Choose(local, remote string, of []Address) (Address, error) {
	kinds := []string{TLS}
	same := local == remote && local != ""
	if same {
		kinds = []string{Unix, TLS, TCP}
	}
	if want := os.Getenv(ChooseVariable); want != "" {
		if !slices.Contains([]string{Unix, TCP, TLS}, want) {
			return Address{}, fmt.Errorf("%s=%q; allowed: %s, %s, %s", ChooseVariable, want, Unix, TCP, TLS)
		}
		kinds = []string{want}
	}
	for _, kind := range kinds {
		for _, a := range of {
			if a.Kind == kind && (same || !a.Host.Addr().IsLoopback()) {
				return a, nil
			}
		}
	}
	wanted := strings.Join(kinds, " or ")
	if !same {
		wanted += " at an address that other hosts reach"
	}
	return Address{}, fmt.Errorf("no way to a peer at %v; wanted: %s", of, wanted)
}

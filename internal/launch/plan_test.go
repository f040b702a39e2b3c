package launch

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/internal/spool"
	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/protocol/collective"
)

// TestWindowsIsRefusedInOneLine: as bad input that says what is needed.
func TestWindowsIsRefusedInOneLine(t *testing.T) {
	err := supported("windows")
	if !errors.As(err, new(InputError)) || !strings.Contains(err.Error(), "needs Linux or macOS") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%T: %v", err, err)
	}
	for _, goos := range []string{"linux", "darwin", "freebsd"} {
		if err := supported(goos); err != nil {
			t.Errorf("%s: %v", goos, err)
		}
	}
}

func TestNetworkOfAJob(t *testing.T) {
	t.Setenv(transport.ChooseVariable, transport.Unix)
	variable := transport.ChooseVariable + "="
	for _, c := range []struct {
		hosts int
		env   []string
		want  collective.Network
	}{
		{1, nil, collective.OverSockets},
		{1, []string{variable + transport.Shared}, collective.InMemory},
		{1, []string{variable}, collective.InMemory},
		{1, []string{variable, variable + transport.TCP}, collective.OverSockets},
		{2, []string{variable}, collective.AcrossHosts},
		{2, nil, collective.AcrossHosts},
	} {
		p := &Plan{Config: Config{Env: c.env}, shares: make([]spool.Host, c.hosts)}
		if got := p.network(); got != c.want {
			t.Errorf("%d hosts, %q: %q, want %q", c.hosts, c.env, got, c.want)
		}
	}
}

// TestHostsOfAJob: processes are told how many begin on each host.
func TestHostsOfAJob(t *testing.T) {
	for _, c := range []struct {
		hosts []Host
		want  []int
	}{
		{nil, nil},
		{[]Host{{Name: "a", Slots: 8}, {Name: "b", Slots: 8}}, nil},
		{[]Host{{Name: "a", Slots: 3}, {Name: "b", Slots: 1}, {Name: "c", Slots: 9}}, []int{3, 1, 2}},
	} {
		p, err := New(Config{N: 6, Hosts: c.hosts, Program: os.Args[0], StdinRank: -1})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Settings.Hosts; !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.hosts, got, c.want)
		}
	}
}

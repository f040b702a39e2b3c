//go:build unix

package transport_test

import (
	"strings"
	"testing"

	"github.com/coppice-go/coppice/internal/transport"
)

func TestAddressComesBack(t *testing.T) {
	for text, want := range map[string]string{
		"unix:/run/job/3.sock":     "",
		"unix:/a:b":                "",
		"tcp:192.0.2.1:5":          "",
		"tls:[::1]:65535":          "",
		"tls:[0:0::1]:7":           "tls:[::1]:7",
		"tcp:[::ffff:127.0.0.1]:7": "tcp:127.0.0.1:7",
	} {
		if want == "" {
			want = text
		}
		a, err := transport.ParseAddress(text)
		if err != nil || a.String() != want {
			t.Errorf("%s comes back as %v, %v", text, a, err)
		}
	}
}

func TestBadAddressesAreRefused(t *testing.T) {
	for _, text := range []string{
		"", "unix", "unix:", "unix:a", "unix:/a\x00b", "tcp:", "tcp:1.2.3.4", "tcp:1.2.3.4:0", "tcp:1.2.3.4:65536",
		"tls:host:5", "tls:::1:5", "tls:[fe80::1%eth0]:5", "udp:1.2.3.4:5", "1.2.3.4:5",
	} {
		if a, err := transport.ParseAddress(text); err == nil || !strings.Contains(err.Error(), "allowed: ") {
			t.Errorf("%q: %v, %v", text, a, err)
		}
	}
}

func TestPlaceComesBack(t *testing.T) {
	for text, want := range map[string]string{
		"unix:/run/job/3.sock":      "",
		"tls:":                      "tls:0",
		"tls:7000":                  "",
		"tls:7000-7099":             "",
		"tls:7000-7000":             "tls:7000",
		"tcp:10.0.0.0/8:7000":       "",
		"tls:10.0.0.0/8":            "tls:10.0.0.0/8:0",
		"tls:[fd00::/8]":            "tls:[fd00::/8]:0",
		"tcp:10.1.2.3/8:0":          "tcp:10.0.0.0/8:0",
		"tcp:127.0.0.0/8:":          "tcp:127.0.0.0/8:0",
		"tls:[2001:db8::/32]:1-2":   "",
		"tls:[::1/128]:0":           "",
		"tls:[2001:db8::1/32]:1-20": "tls:[2001:db8::/32]:1-20",
	} {
		if want == "" {
			want = text
		}
		if p, err := transport.ParsePlace(text); err != nil || p.String() != want {
			t.Errorf("%s comes back as %v, %v", text, p, err)
		}
	}
}

func TestBadPlacesAreRefused(t *testing.T) {
	for _, text := range []string{
		"", "tls", "unix:a", "udp:5", "tls:70000", "tls:5-4", "tls:0-4", "tls:-4", "tls:x", "tls:10.0.0.0:5",
		"tls:10.0.0.0/33:5", "tls:[10.0.0.0/8]:5", "tls:::1/128:5", "tls:fd00::/8", "tls:10.0.0.0", "tls:[]", "tls:/8",
	} {
		if p, err := transport.ParsePlace(text); err == nil || !strings.Contains(err.Error(), "allowed: ") {
			t.Errorf("%q: %v, %v", text, p, err)
		}
	}
}

func FuzzAddress(f *testing.F) {
	for _, s := range []string{"unix:/a", "tcp:1.2.3.4:5", "tls:[::1]:5", "tls:10.0.0.0/8:1-2", "tls:[::1/128]:0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if a, err := transport.ParseAddress(s); err == nil {
			if back, err := transport.ParseAddress(a.String()); err != nil || back != a {
				t.Errorf("%q is %v, which comes back as %v, %v", s, a, back, err)
			}
		}
		if p, err := transport.ParsePlace(s); err == nil {
			if back, err := transport.ParsePlace(p.String()); err != nil || back != p {
				t.Errorf("%q is %v, which comes back as %v, %v", s, p, back, err)
			}
		}
	})
}

func TestChoose(t *testing.T) {
	parse := func(texts ...string) (all []transport.Address) {
		for _, s := range texts {
			a, err := transport.ParseAddress(s)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, a)
		}
		return all
	}
	all := parse("unix:/a", "tcp:192.0.2.1:1", "tls:127.0.0.1:3", "tls:192.0.2.1:2", "tls:[2001:db8::1]:2")
	for _, c := range []struct {
		variable, local, remote string
		of                      []transport.Address
		want                    string // "": none
	}{
		{"", "a", "a", all, "unix:/a"},
		{"", "a", "b", all, "tls:192.0.2.1:2"},
		{"", "", "", all, "tls:192.0.2.1:2"},
		{"", "a", "a", all[1:], "tls:127.0.0.1:3"},
		{"", "a", "a", all[1:2], "tcp:192.0.2.1:1"},
		{"", "a", "b", all[:3], ""}, // never in clear by itself
		{"", "a", "b", nil, ""},
		{"tcp", "a", "b", all, "tcp:192.0.2.1:1"},
		{"tcp", "a", "a", all, "tcp:192.0.2.1:1"},
		{"tls", "a", "a", all, "tls:127.0.0.1:3"},
		{"unix", "a", "b", all, "unix:/a"},
		{"unix", "a", "a", all[1:], ""},
		{"udp", "a", "a", all, ""},
	} {
		t.Setenv(transport.ChooseVariable, c.variable)
		a, err := transport.Choose(c.local, c.remote, c.of)
		if a.String() != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%+v: %v, %v", c, a, err)
		}
	}
	if transport.HostID() == "" {
		t.Error("this host has no name")
	}
}

package kubernetes

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// serveNames resolves names for pods, as the cluster's own server does: from the EndpointSlices that
// the controller has made of the Services.
func serveNames(t *testing.T, c *cluster) {
	t.Helper()
	conn, err := net.ListenPacket("udp", nodeAddress+":53")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(background)
	t.Cleanup(func() {
		cancel()
		conn.Close()
	})
	go c.follow(ctx)
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			question := append([]byte(nil), buf[:n]...)
			go func() {
				if answer := c.answer(question); answer != nil {
					_, _ = conn.WriteTo(answer, from)
				}
			}()
		}
	}()
}

// answer answers one question; it returns nil if b is none.
func (c *cluster) answer(b []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(b) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	m.Response, m.Authoritative, m.RecursionAvailable = true, true, true
	m.Additionals = nil
	addresses, known := c.lookUp(strings.TrimSuffix(q.Name.String(), "."))
	if !known {
		m.RCode = dnsmessage.RCodeNameError
	}
	if q.Type == dnsmessage.TypeA {
		for _, a := range addresses {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 5},
				Body:   &dnsmessage.AResource{A: a.As4()},
			})
		}
	}
	answer, err := m.Pack()
	if err != nil {
		return nil
	}
	return answer
}

// endpointsTime is how often follow asks the API server, however many pods ask for names meanwhile.
const endpointsTime = 100 * time.Millisecond

// follow keeps the EndpointSlices up to date.
func (c *cluster) follow(ctx context.Context) {
	for ctx.Err() == nil {
		if list, err := c.DiscoveryV1().EndpointSlices("default").List(ctx, meta.ListOptions{}); err == nil {
			c.mu.Lock()
			c.slices = list.Items
			c.mu.Unlock()
		}
		time.Sleep(endpointsTime)
	}
}

// endpoints returns the EndpointSlices of a service.
func (c *cluster) endpoints(service string) (all []discovery.EndpointSlice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.slices {
		if s.Labels[discovery.LabelServiceName] == service {
			all = append(all, s)
		}
	}
	return all
}

// lookUp resolves POD.SERVICE.default.svc.cluster.local.
func (c *cluster) lookUp(name string) (addresses []netip.Addr, known bool) {
	name, ok := strings.CutSuffix(name, ".default.svc.cluster.local")
	host, service, two := strings.Cut(name, ".")
	if !ok || !two {
		return nil, false
	}
	for _, s := range c.endpoints(service) {
		for _, e := range s.Endpoints {
			if e.Hostname == nil || *e.Hostname != host {
				continue
			}
			for _, a := range e.Addresses {
				if address, err := netip.ParseAddr(a); err == nil {
					addresses = append(addresses, address)
				}
			}
		}
	}
	return addresses, len(addresses) > 0
}

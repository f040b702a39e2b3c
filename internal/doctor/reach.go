package doctor

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/detect"
	"github.com/coppice-go/coppice/internal/launch"
	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/internal/wire"
)

// reachAll connects to other hosts, all at once.
func (h *host) reachAll(ctx context.Context, all []target) []reached {
	found := make([]reached, len(all))
	var running sync.WaitGroup
	for i, to := range all {
		running.Go(func() { found[i] = h.reach(ctx, to) })
	}
	running.Wait()
	return found
}

// reach connects to another host as a process connects to one there.
func (h *host) reach(ctx context.Context, to target) (r reached) {
	r = reached{To: to.Number}
	a, err := h.way(ctx, to)
	if err != nil {
		r.How, r.Text = unreachable, err.Error()
		return r
	}
	r.Address = a.Host.String()
	if h.udp != nil {
		go func() {
			for range datagrams {
				h.udp.Send(a.Host, detect.Datagram{To: to.Number})
				time.Sleep(gapTime)
			}
		}()
	}
	began := time.Now()
	if err := h.connect(ctx, a); err != nil {
		r.How, r.Text = failure(err), err.Error()
		return r
	}
	r.Took = time.Since(began)
	r.How, r.Text = h.shake(ctx, a, to.Number)
	return r
}

// way returns the address that a process on this host would use.
func (h *host) way(ctx context.Context, to target) (transport.Address, error) {
	var all []transport.Address
	for _, text := range to.Addresses {
		a, err := transport.ParseAddress(text)
		if err != nil {
			return a, err
		}
		all = append(all, a)
	}
	if to.Fallback == "" || len(all) == 0 {
		return transport.Choose(transport.HostID(), to.Host, all)
	}
	ctx, cancel := context.WithTimeout(ctx, ConnectTime)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", launch.Caller(to.Fallback))
	if err != nil {
		return transport.Address{}, err
	}
	return transport.Address{Kind: all[0].Kind, Host: netip.AddrPortFrom(found[0].Unmap(), all[0].Host.Port())}, nil
}

// connect only connects: if the handshake fails later, the connection was not the cause.
func (h *host) connect(ctx context.Context, a transport.Address) error {
	d := net.Dialer{Timeout: ConnectTime}
	conn, err := d.DialContext(ctx, "tcp", a.Host.String())
	if err == nil {
		_ = conn.Close()
	}
	return err
}

// shake makes the handshake of two processes.
func (h *host) shake(ctx context.Context, a transport.Address, number uint32) (how, text string) {
	ctx, cancel := context.WithTimeout(ctx, ConnectTime)
	defer cancel()
	c, err := h.endpoint.Dial(ctx, a, wire.Identity{To: number}, 0)
	var refusal wire.Refusal
	switch {
	case err == nil:
		_ = c.Close()
		return reachedWell, ""
	case errors.As(err, &refusal) && refusal == wire.Closing:
		return reachedWell, "" // as Serve answers
	case errors.As(err, &refusal), errors.Is(err, transport.ErrUnheard), errors.Is(err, wire.ErrStranger):
		return strange, err.Error()
	}
	return unfinished, err.Error()
}

// failure returns why there is no connection.
func failure(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return refused
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return blocked
	}
	return unreachable
}

package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The variables, named like those of etcdctl.
const (
	varCACert   = "COPPICE_ETCD_CACERT"
	varCert     = "COPPICE_ETCD_CERT"
	varKey      = "COPPICE_ETCD_KEY"
	varUser     = "COPPICE_ETCD_USER"
	varPassword = "COPPICE_ETCD_PASSWORD"
	varLease    = "COPPICE_ETCD_LEASE"
)

const portDefault = "2379"

// settings say how to reach etcd.
type settings struct {
	url            string
	job            string
	endpoints      []string    // HOST:PORT
	tls            *tls.Config // nil: in clear
	user, password string
	lease          time.Duration
}

// readSettings reads the variables.
func readSettings(who control.Registrant) (s settings, err error) {
	get := who.Getenv
	s = settings{url: who.URL, job: who.Job, user: get(varUser), password: get(varPassword), lease: leaseDefault}
	for _, e := range who.Endpoints {
		if _, _, err := net.SplitHostPort(e); err != nil {
			e = net.JoinHostPort(strings.Trim(e, "[]"), portDefault)
		}
		s.endpoints = append(s.endpoints, e)
	}
	if name, password, both := strings.Cut(s.user, ":"); both && s.password == "" {
		s.user, s.password = name, password
	}
	switch {
	case s.user == "" && s.password != "":
		return s, fmt.Errorf("%s is set, but not %s; allowed: both, or neither", varPassword, varUser)
	case s.user != "" && s.password == "":
		return s, fmt.Errorf("%s is set, but not %s; allowed: both, or neither", varUser, varPassword)
	}
	if text := get(varLease); text != "" {
		if s.lease, err = time.ParseDuration(text); err != nil || s.lease < leaseMin || s.lease > time.Hour {
			return s, fmt.Errorf("%s=%q; allowed: a time from %v to 1h, such as 10s", varLease, text, leaseMin)
		}
	}
	s.tls, err = readTLS(get, strings.HasPrefix(who.URL, "etcds:"))
	return s, err
}

// readTLS reads the certificates; nil: connections are in clear.
func readTLS(get func(string) string, wanted bool) (*tls.Config, error) {
	ca, cert, key := get(varCACert), get(varCert), get(varKey)
	if ca == "" && cert == "" && key == "" && !wanted {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", varCACert, err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s=%s has no certificate in it; allowed: a file of certificates in PEM", varCACert, ca)
		}
	}
	if (cert == "") != (key == "") {
		return nil, fmt.Errorf("one of %s and %s is set; allowed: both, or neither", varCert, varKey)
	}
	if cert == "" {
		return cfg, nil
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", varCert, varKey, err)
	}
	if now := time.Now(); now.After(pair.Leaf.NotAfter) || now.Before(pair.Leaf.NotBefore) {
		return nil, fmt.Errorf("%s=%s is valid from %s to %s; allowed: a certificate that is valid now", varCert, cert, day(pair.Leaf.NotBefore), day(pair.Leaf.NotAfter))
	}
	cfg.Certificates = []tls.Certificate{pair}
	return cfg, nil
}

func day(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// connect returns a client when an etcd member answers. If none does, the error says why for each.
func (s settings) connect(ctx context.Context) (*clientv3.Client, error) {
	if err := s.reach(ctx); err != nil {
		return nil, err
	}
	cfg := clientv3.Config{
		Context: context.WithoutCancel(ctx), TLS: s.tls, Username: s.user, Password: s.password,
		DialTimeout: answerMax, DialKeepAliveTime: 5 * time.Second, DialKeepAliveTimeout: 5 * time.Second, PermitWithoutStream: true,
		Logger: zap.NewNop(), // errors are reported once
	}
	scheme := "http://"
	if s.tls != nil {
		scheme = "https://"
	}
	for _, e := range s.endpoints {
		cfg.Endpoints = append(cfg.Endpoints, scheme+e)
	}
	client, err := clientv3.New(cfg)
	if err != nil {
		return nil, s.explain(err)
	}
	return client, nil
}

// reach waits until an etcd member answers.
func (s settings) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, reachMax, errNoAnswer)
	defer cancel()
	var last []error // of the last try that was not cut short
	for {
		errs := s.tryAll(ctx)
		if slices.Contains(errs, nil) {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = errs
		}
		switch {
		case !slices.ContainsFunc(last, func(err error) bool { return remedy(err) == "" }): // waiting does not help
			return s.unreached(last)
		case ctx.Err() == nil:
			pause(ctx)
		case errors.Is(context.Cause(ctx), errNoAnswer):
			return s.unreached(last)
		default:
			return context.Cause(ctx)
		}
	}
}

var (
	errNoAnswer    = errors.New("no answer")
	errSpeaksTLS   = errors.New("it speaks TLS")
	errSpeaksClear = errors.New("it does not speak TLS")
)

// unreached returns why no member answers, and what to do.
func (s settings) unreached(errs []error) error {
	var words, remedies []string
	for i, err := range errs {
		words = append(words, fmt.Sprintf("%s: %v", s.endpoints[i], short(err)))
		if r := remedy(err); r != "" && !slices.Contains(remedies, r) {
			remedies = append(remedies, r)
		}
	}
	what := "no channel to etcd"
	if remedies == nil {
		what = fmt.Sprintf("etcd does not answer within %v", reachMax)
		remedies = []string{"start etcd, of which more than half of the members must run, or name others"}
	}
	return fmt.Errorf("%s=%s: %s: %s; %s", control.VarRendezvous, s.url, what, strings.Join(words, "; "), strings.Join(remedies, ", "))
}

// short removes from an error of a connection what is said anyway.
func short(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return op.Err
	}
	return err
}

// remedy returns what to do about a connection that waiting does not fix; "": waiting may.
func remedy(err error) string {
	var invalid x509.CertificateInvalidError
	var stranger x509.UnknownAuthorityError
	var name x509.HostnameError
	switch {
	case errors.Is(err, errSpeaksTLS):
		return fmt.Sprintf("set %s to the file of its authority, or write etcds:// for one that this host knows", varCACert)
	case errors.Is(err, errSpeaksClear):
		return fmt.Sprintf("unset %s, %s and %s, and write etcd://", varCACert, varCert, varKey)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "give etcd a certificate that is valid now, or set the clock of this host"
	case errors.As(err, &stranger):
		return fmt.Sprintf("set %s to the file of the authority that has signed its certificate", varCACert)
	case errors.As(err, &name):
		return fmt.Sprintf("name members in %s as their certificates do", control.VarRendezvous)
	case alerted(err):
		return fmt.Sprintf("set %s and %s to a certificate that etcd accepts", varCert, varKey)
	}
	return ""
}

// tryAll opens a connection to each member. nil: that member answers.
func (s settings) tryAll(ctx context.Context) []error {
	errs := make([]error, len(s.endpoints))
	var wg sync.WaitGroup
	for i, e := range s.endpoints {
		wg.Go(func() { errs[i] = s.try(ctx, e) })
	}
	wg.Wait()
	return errs
}

// tryMax bounds one connection of try.
const tryMax = 2 * time.Second

// try opens a connection to a member. If the member does not understand it, try finds out whether the other of TLS and clear text would work.
func (s settings) try(ctx context.Context, endpoint string) error {
	err := talk(ctx, endpoint, s.tls)
	var op *net.OpError
	switch {
	case err == nil || errors.As(err, &op) && op.Op == "dial" || remedy(err) != "":
	case s.tls == nil && certified(talk(ctx, endpoint, new(tls.Config))):
		return errSpeaksTLS
	case s.tls != nil && talk(ctx, endpoint, nil) == nil:
		return errSpeaksClear
	}
	return err
}

// certified reports whether the peer has shown a certificate, valid or not, or has asked for one.
func certified(err error) bool {
	var verification *tls.CertificateVerificationError
	return err == nil || errors.As(err, &verification) || alerted(err)
}

// alerted reports whether a peer has refused a TLS connection, most often because it wants a certificate.
func alerted(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// preface begins an HTTP/2 connection, with empty settings. The answer begins with a frame of type 4.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// talk opens a connection as gRPC does, over TLS unless cfg is nil.
func talk(ctx context.Context, endpoint string, cfg *tls.Config) error {
	ctx, cancel := context.WithTimeout(ctx, tryMax)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", endpoint)
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	conn.SetDeadline(deadline)
	if cfg != nil {
		cfg = cfg.Clone()
		cfg.ServerName, _, _ = net.SplitHostPort(endpoint)
		cfg.NextProtos = []string{"h2"}
		conn = tls.Client(conn, cfg)
	}
	if _, err := conn.Write([]byte(preface)); err != nil {
		return err
	}
	var frame [9]byte
	if _, err := io.ReadFull(conn, frame[:]); err != nil {
		return err
	}
	if frame[3] != 4 {
		return fmt.Errorf("it answers with %q, not with HTTP/2", frame)
	}
	return nil
}

// explain turns an answer of etcd, or its absence, into one line with a remedy.
func (s settings) explain(err error) error {
	at := fmt.Sprintf("%s=%s", control.VarRendezvous, s.url)
	switch known := rpctypes.Error(err); {
	case errors.Is(known, rpctypes.ErrAuthFailed), strings.Contains(err.Error(), rpctypes.ErrorDesc(rpctypes.ErrGRPCAuthFailed)):
		return fmt.Errorf("%s: etcd knows no user %q with this password; set %s and %s to those of a user of etcd", at, s.user, varUser, varPassword)
	case errors.Is(known, rpctypes.ErrUserEmpty):
		return fmt.Errorf("%s: etcd wants a user; set %s and %s, or %s and %s", at, varUser, varPassword, varCert, varKey)
	case errors.Is(known, rpctypes.ErrPermissionDenied):
		return fmt.Errorf("%s: the user %q may not use the keys of the job; give it a role: etcdctl role grant-permission ROLE readwrite --prefix=true /coppice/%s/", at, s.user, s.job)
	case errors.Is(known, rpctypes.ErrAuthNotEnabled):
		return fmt.Errorf("%s: etcd has no users; unset %s", at, varUser)
	case passes(err):
		return fmt.Errorf("%s: members of etcd answer, but not to a request within %v: %w; start etcd, of which more than half of the members must run", at, answerMax, err)
	}
	return fmt.Errorf("%s: %w", at, err)
}

// passes reports whether etcd may answer later.
func passes(err error) bool {
	var known rpctypes.EtcdError
	code := status.Code(err)
	if errors.As(rpctypes.Error(err), &known) {
		code = known.Code()
	}
	// A member that has no leader reports its own deadline without a code.
	return errors.Is(err, context.DeadlineExceeded) || code == codes.DeadlineExceeded || code == codes.Unavailable ||
		code == codes.Unknown && strings.Contains(err.Error(), context.DeadlineExceeded.Error())
}

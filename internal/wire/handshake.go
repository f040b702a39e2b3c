package wire

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The handshake. C is the process that connected, S the one that accepted:
//
//	C → S  greeting: magic, version, nonce
//	S → C  greeting: magic, version, nonce
//	C → S  identity, proof
//	S → C  verdict, identity, proof
//
// A proof is a keyed hash, under the job's key, of everything said so far and of the role that says it.
// Nonces are fresh, so nothing can be replayed, and the two roles differ, so nothing can be reflected.
// Until C has proven the key, S sends nothing but a nonce, and reads no more than a fixed number of
// bytes. A refusal is proven as well: only the job itself can turn a process away.

// Version is the protocol's version. Peers must agree on it: a job runs one
// build of the library.
const Version = 3

var magic = [8]byte{'c', 'o', 'p', 'p', 'i', 'c', 'e', 0}

const (
	nonceLen    = 32
	greetingLen = 8 + 4 + nonceLen
	identityLen = 16 + 4 + 4 + 8 + 8 + 8 + 8 + 8
	proofLen    = sha256.Size
)

// Coordinator is the id of the job's coordinator. No process has this id.
const Coordinator = ^uint32(0)

// Identity is what a process says about itself and the link it wants. It goes over the connection field
// by field, little-endian.
type Identity struct {
	Job         [16]byte
	From, To    uint32 // process ids: the speaker and its peer
	Incarnation uint64 // of From
	View        uint64 // the latest view that From knows
	Link        uint64 // From's own number: distinguishes this connection of the two from others
	Received    uint64 // all of the peer's frames up to this number have arrived on this link; between a process and a coordinator, the number of processes of the job; 0: unspecified
	Life        uint64 // to a coordinator, drawn by From when it begins: distinguishes two processes of one rank; to a process, the incarnation meant; 0: unspecified
}

func (id Identity) append(b []byte) []byte {
	b, _ = binary.Append(b, binary.LittleEndian, id) // all of fixed size
	return b
}

func parseIdentity(b []byte) (id Identity) {
	_, _ = binary.Decode(b, binary.LittleEndian, &id) // b is long enough
	return id
}

// Errors of the handshake.
var (
	// ErrStranger is returned if the peer does not know the job's key, or does not speak this protocol.
	ErrStranger = errors.New("stranger")
	// ErrVersion is returned if the peer speaks another version.
	ErrVersion = errors.New("other version")
	// ErrUnanswered is returned if the peer closed the connection instead of answering our proof. It
	// has another key, or was ending.
	ErrUnanswered = errors.New("turned away: it has another key, or is ending")
)

// Refusal is the reason why a process of the job turns a connection away. It is part of the protocol:
// peers act on it.
type Refusal uint32

// The reasons to refuse.
const (
	Accepted  Refusal = iota
	OtherJob          // the connection belongs to another job
	NotMe             // it was meant for another process
	Crossed           // both connected at once, and the other connection stays
	Lost              // the link cannot be resumed: too much is missing
	Excluded          // the peer is not a member of the present view
	Closing           // the process is leaving
	NoRank            // the job has no such process
	OtherSize         // the job has another number of processes
)

var refusalNames = [...]string{"accepted", "another job", "another process", "connected twice", "link lost", "excluded", "closing", "the job has no such rank", "the job has another size"}

func (r Refusal) Error() string {
	if int(r) < len(refusalNames) {
		return "refused: " + refusalNames[r]
	}
	return fmt.Sprintf("refused: reason %d", uint32(r))
}

// Connect makes the handshake on a connection that this process opened. binding
// ties it to the channel below (TLS exporter); nil where there is none.
func Connect(conn io.ReadWriter, key, binding []byte, me Identity) (peer Identity, err error) {
	t, err := greet(conn, key, binding, true)
	if err != nil {
		return Identity{}, err
	}
	if err := t.say("client", me.append(nil)); err != nil {
		return Identity{}, err
	}
	said, err := t.hear("server", 4+identityLen)
	if errors.Is(err, io.EOF) {
		return Identity{}, fmt.Errorf("%w: %w", ErrUnanswered, err)
	} else if err != nil {
		return Identity{}, err
	}
	verdict := Refusal(binary.LittleEndian.Uint32(said))
	peer = parseIdentity(said[4:])
	if verdict != Accepted {
		return peer, verdict
	}
	return peer, nil
}

// Accept makes the handshake on a connection that the peer opened. Once the peer has proven its
// identity, Accept passes it to decide, which returns our identity towards it and a verdict.
func Accept(conn io.ReadWriter, key, binding []byte, decide func(Identity) (me Identity, verdict Refusal)) (peer Identity, err error) {
	t, err := greet(conn, key, binding, false)
	if err != nil {
		return Identity{}, err
	}
	said, err := t.hear("client", identityLen)
	if err != nil {
		return Identity{}, err
	}
	peer = parseIdentity(said)
	me, verdict := decide(peer)
	answer := binary.LittleEndian.AppendUint32(nil, uint32(verdict))
	if err := t.say("server", me.append(answer)); err != nil {
		return peer, err
	}
	if verdict != Accepted {
		return peer, verdict
	}
	return peer, nil
}

// talk is a handshake after the greetings.
type talk struct {
	conn io.ReadWriter
	key  []byte
	said []byte // everything so far
}

// greet exchanges greetings. The process that connected speaks first.
func greet(conn io.ReadWriter, key, binding []byte, first bool) (*talk, error) {
	if len(key) < 16 {
		return nil, fmt.Errorf("key of %d bytes; allowed: 16 or more", len(key))
	}
	mine := make([]byte, greetingLen)
	copy(mine, magic[:])
	binary.LittleEndian.PutUint32(mine[8:], Version)
	if _, err := rand.Read(mine[12:]); err != nil {
		return nil, err
	}
	theirs := make([]byte, greetingLen)
	if first {
		if _, err := conn.Write(mine); err != nil {
			return nil, err
		}
	}
	if _, err := io.ReadFull(conn, theirs); err != nil {
		return nil, err
	}
	if !bytes.Equal(theirs[:8], magic[:]) {
		return nil, fmt.Errorf("%w: no greeting", ErrStranger)
	}
	if !first { // whatever the peer's version: it must learn ours, rather than conclude that nobody answered
		if _, err := conn.Write(mine); err != nil {
			return nil, err
		}
	}
	if v := binary.LittleEndian.Uint32(theirs[8:]); v != Version {
		return nil, fmt.Errorf("%w: %d, ours is %d; allowed: one version of coppice in the command and the program, on all hosts", ErrVersion, v, Version)
	}
	if !first {
		mine, theirs = theirs, mine
	}
	t := &talk{conn: conn, key: key}
	t.said = append(t.said, mine...)
	t.said = append(t.said, theirs...)
	sum := sha256.Sum256(binding)
	t.said = append(t.said, sum[:]...)
	return t, nil
}

// proof returns a role's proof for everything said so far.
func (t *talk) proof(role string) []byte {
	h := hmac.New(sha256.New, t.key)
	h.Write([]byte(role))
	h.Write(t.said)
	return h.Sum(nil)
}

// say sends what, followed by the role's proof.
func (t *talk) say(role string, what []byte) error {
	t.said = append(t.said, what...)
	_, err := t.conn.Write(append(bytes.Clone(what), t.proof(role)...))
	return err
}

// hear reads n bytes from the peer and checks their proof.
func (t *talk) hear(role string, n int) ([]byte, error) {
	b := make([]byte, n+proofLen)
	if _, err := io.ReadFull(t.conn, b); err != nil {
		return nil, err
	}
	t.said = append(t.said, b[:n]...)
	if !hmac.Equal(b[n:], t.proof(role)) {
		return nil, fmt.Errorf("%w: does not know the job's key", ErrStranger)
	}
	return b[:n], nil
}

package membership

import (
	"fmt"
	"strings"

	"github.com/coppice-go/coppice/protocol"
)

// Ballot is a proposer's attempt to decide the next view: a round and the
// proposer's id, so that no two proposers share one. 0: none.
type Ballot uint64

// ballot returns a proposer's ballot of a round.
func ballot(round uint32, by protocol.Rank) Ballot { return Ballot(round)<<32 | Ballot(by+1) }

// Round is the ballot's round, By its proposer.
func (b Ballot) Round() uint32 { return uint32(b >> 32) }

// By is the ballot's proposer.
func (b Ballot) By() protocol.Rank { return protocol.Rank(uint32(b)) - 1 }

func (b Ballot) String() string {
	if b == 0 {
		return "no ballot"
	}
	return fmt.Sprintf("%d.%d", b.Round(), b.By())
}

// Kind is the kind of a Letter.
type Kind uint8

// The kinds of letters. Names of the thesis in brackets.
const (
	// Between processes, on the tree.
	Prepare Kind = iota // down: promise to take part in no ballot below this one
	Promise             // up: promised; what was accepted so far
	Propose             // down: accept this view (FAILED_NODE, ROOT_DEAD, NEW_NODE_JOIN, ALIVE_NODE_JOIN)
	Accept              // up: accepted (FAILURE_ACK)
	Confirm             // down: this view is chosen; be in it
	Present             // up: in it
	Stable              // down: all live members are in it

	// Between two processes.
	Reject  // a higher ballot was promised
	Decided // a later view is chosen
	Failure // a process has failed (NODE_FAILURE, ROOT_FAILURE)
	Noted   // that is known (FAILURE_DET_ACK)
	Join    // a process wants to join (NEW_NODE, NODE_ALIVE)
	Leave   // a process leaves; Number is the view as of which no process needs it any more, 0: it is needed

	// From a process to its driver, and back.
	Record   // Work: keep this where it outlives the process
	Fence    // Work: request that a suspect is killed; the letter is the proof (quorum.go)
	Opened   // Deliver: a view is open
	Excluded // Deliver: this process is removed
	NoQuorum // Deliver: the failed members cannot be voted out
	Will     // what a dead process recorded last; comes before its Death notice
	Wish     // Work: a suspect stands in the way, and only a minority could be asked; Fence it if it shows no life

	// Between a process and its driver, about the arbiter.
	Arbitrate // Work: ask the arbiter to name this process for the view; the answer is one of the next three, from this process
	Granted   // this process is named
	Denied    // another process is named
	NoArbiter // the arbiter does not answer
	kinds
)

var kindNames = [kinds]string{
	"prepare", "promise", "propose", "accept", "confirm", "present", "stable", "reject", "decided", "failure", "noted", "join", "leave",
	"record", "fence", "opened", "excluded", "no quorum", "will", "wish",
	"arbitrate", "granted", "denied", "no arbiter",
}

func (k Kind) String() string { return protocol.Name(k, "Kind", kindNames[:]) }

// Letter is the content of a message. Letters are shared and never change.
type Letter struct {
	Kind    Kind
	Flat    bool  // down: the route is no tree, all are children of the first
	Open    bool  // Decided: the view is open
	Certain bool  // Failure: the kernel says so; Fence: a majority has promised, otherwise only two are left
	Willed  bool  // Failure: Base, Ballot and Value are what the dead process recorded
	Bits    uint8 // down: of a digit of the radix tree, whose nodes have 2^Bits children

	Attempt uint32
	Number  uint64 // of Base, also where that is left out
	Ballot  Ballot // of Value, or that was promised
	Asked   Ballot // Reject: the ballot that is refused; Promise: the one promised
	Base    *View  // the view that is in force
	Value   *View  // the one to follow it
	Who     Member
	Route   []protocol.Rank // the nodes of the tree, the proposer first; Fence: members that have promised the ballot
	Missing []protocol.Rank // up: nodes below that did not answer; Fence: members that are certainly dead
}

// Message is a letter on its way, with the incarnations of sender and receiver, and on the tree the place that the
// letter is about: down the receiver's, up the sender's.
type Message struct {
	*Letter
	From, To uint32 // incarnations; To 0: any
	At       uint32
}

// Fingerprint stands for the message.
func (m Message) Fingerprint() [2]uint64 {
	f := fingerprint{uint64(m.From), uint64(m.To)<<32 | uint64(m.At)}
	if m.Letter != nil {
		f = f.and(m.Letter.fingerprint())
	}
	return f
}

func (l *Letter) fingerprint() fingerprint {
	f := fingerprint{uint64(l.Kind), uint64(l.Attempt)<<8 | uint64(l.Bits)}
	f = f.flag(l.Flat).flag(l.Open).flag(l.Certain).flag(l.Willed)
	f = f.with(l.Number).with(uint64(l.Ballot)).with(uint64(l.Asked)).view(l.Base).view(l.Value)
	return f.member(l.Who).ranks(l.Route).ranks(l.Missing)
}

func (m Message) String() string {
	if m.Letter == nil {
		return "nothing"
	}
	l := m.Letter
	var b strings.Builder
	b.WriteString(l.Kind.String())
	if l.Ballot != 0 {
		fmt.Fprintf(&b, " ballot %v", l.Ballot)
	}
	if l.Asked != 0 {
		fmt.Fprintf(&b, " asked %v", l.Asked)
	}
	if l.Value != nil {
		fmt.Fprintf(&b, " %v", l.Value)
	}
	if l.Base != nil {
		fmt.Fprintf(&b, " on %v", l.Base)
	} else if l.Number > 0 {
		fmt.Fprintf(&b, " on view %d", l.Number)
	}
	if l.Who != (Member{}) {
		fmt.Fprintf(&b, " of %v", l.Who)
	}
	if l.Certain {
		b.WriteString(" certain")
	}
	if len(l.Missing) > 0 {
		fmt.Fprintf(&b, " without %v", l.Missing)
	}
	return b.String()
}

// answer returns the kind that goes up in answer to one that goes down.
func (k Kind) answer() Kind { return k + 1 }

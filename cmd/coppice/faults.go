package main

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
)

// sampling turns the flags about faults into what the simulator takes.
func (s *simCmd) sampling() (logp.Sampling, error) {
	f := logp.Sampling{Block: s.Block, Spare: protocol.Rank(s.Root), Fixed: logp.Faults{Failed: s.Failed}}
	switch {
	case s.Faults != nil:
		f.Count = s.Faults.of(s.P)
	case s.FaultCount != nil:
		f.Count = *s.FaultCount
	case s.Block != 1:
		return f, errors.New("--block without processes to draw; allowed with: --faults, --fault-count")
	}
	if s.Block < 1 {
		return f, fmt.Errorf("blocks of %d; allowed: 1 to %d", s.Block, max(s.P-1, 1))
	}
	dies := map[protocol.Rank]bool{}
	for _, r := range s.Failed {
		if dies[r] {
			return f, fmt.Errorf("--failed names rank %d twice; allowed: once", r)
		}
		dies[r] = true
	}
	for _, d := range s.Die {
		if dies[d.Rank] {
			return f, fmt.Errorf("rank %d dies twice; allowed: once in --failed and --die", d.Rank)
		}
		dies[d.Rank] = true
		f.Fixed.Deaths = append(f.Fixed.Deaths, logp.Death(d))
	}
	return f, f.Check(s.P)
}

// detector is how long after a death it is known; 0: there is no detector.
func (s *simCmd) detector() (protocol.Time, error) {
	switch {
	case s.Tree != "bfb" && s.Detect != nil:
		return 0, fmt.Errorf("--detect with tree %s, which needs no detector; allowed with: --tree bfb", s.Tree)
	case s.Tree != "bfb":
		return 0, nil
	}
	return s.detection()
}

// detection is how long after a death a detector tells of it.
func (s *simCmd) detection() (protocol.Time, error) {
	after := protocol.Time(given(s.Detect, 1))
	if after < 1 || after > 1<<30 {
		return 0, fmt.Errorf("detection after %d; allowed: 1 to 2^30", after)
	}
	return after, nil
}

// share is a part of all processes, written in per cent. It is exact: 0.7% of
// 1000 are 7.
type share struct{ per100 big.Rat }

// UnmarshalText reads 1%, 0.01% and the like.
func (s *share) UnmarshalText(text []byte) error {
	number, percent := strings.CutSuffix(string(text), "%")
	if percent && number != "" && strings.Trim(number, "0123456789.") == "" {
		if _, ok := s.per100.SetString(number); ok && s.per100.Cmp(big.NewRat(100, 1)) <= 0 {
			return nil
		}
	}
	return fmt.Errorf("%q; allowed: 0%% to 100%% with the percent sign, such as 0.5%%; a number of processes is --fault-count", text)
}

// of returns round(p·share).
func (s *share) of(p int) int {
	n := new(big.Rat).Mul(&s.per100, big.NewRat(int64(p), 100))
	n.Add(n, big.NewRat(1, 2))
	return int(new(big.Int).Quo(n.Num(), n.Denom()).Int64())
}

// death is written RANK@t or RANK#k.
type death logp.Death

// UnmarshalText reads what MarshalText writes.
func (d *death) UnmarshalText(text []byte) error {
	s := string(text)
	i := strings.IndexAny(s, "@#")
	rank, wrong := strconv.ParseInt(s[:max(i, 0)], 10, 32) // no rank where there is neither
	n, also := strconv.ParseInt(s[i+1:], 10, 64)
	if wrong != nil || also != nil || n < 0 || s[i] == '#' && n == 0 {
		return fmt.Errorf("%q; allowed: RANK@t with a time t from 0, or RANK#k with a number of sends k from 1", s)
	}
	d.Rank = protocol.Rank(rank)
	if s[i] == '@' {
		d.At = protocol.Time(n)
	} else {
		d.AfterSends = int(n)
	}
	return nil
}

// MarshalText writes the death as the flag has it.
func (d death) MarshalText() ([]byte, error) {
	if d.AfterSends > 0 {
		return fmt.Appendf(nil, "%d#%d", d.Rank, d.AfterSends), nil
	}
	return fmt.Appendf(nil, "%d@%d", d.Rank, d.At), nil
}

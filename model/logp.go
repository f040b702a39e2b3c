// Package model holds the closed forms of the works that Coppice builds on:
// what a broadcast costs, computed instead of simulated. It is pure arithmetic;
// its results are exact unless they say otherwise. Its API may change.
//
// Time is an integer, in any unit. Under LogP a send occupies the sender for o,
// travels L and occupies the receiver for o, so that a message takes effect
// 2o+L after its sender began to send it. A process can begin to send every o.
// All functions take L ≥ 0, o ≥ 1 (CheckLogP checks) and 1 ≤ P ≤ 2^31 for granted.
package model

import "fmt"

// CheckLogP returns an error unless l and o are a latency and an overhead that
// the functions of this package accept.
func CheckLogP(l, o int) error {
	switch {
	case o < 1 || o > timeMax:
		return fmt.Errorf("overhead o is %d; allowed: 1 to %d", o, timeMax)
	case l < 0 || l > timeMax:
		return fmt.Errorf("latency L is %d; allowed: 0 to %d", l, timeMax)
	}
	return nil
}

// timeMax keeps the time of a chain of 2^31 messages below 2^63.
const timeMax = 1 << 30

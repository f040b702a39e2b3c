package credit

import "testing"

// A task that asks for the value of an operation may get it from a task that is far ahead. The giver does not leave it
// behind from then on: it waits, for more than the operation that was asked for.
func TestOneThatWasAskedToWaitIsToldAgainAndAgain(t *testing.T) {
	for operations := uint64(1); operations <= 16; operations *= 2 {
		var asks, gives Account
		asks.Reset(Limits{Operations: operations}, 2)
		gives.Reset(Limits{Operations: operations}, 2)
		const given = 40
		gives.Skip(given)
		asks.Owe(1)
		gives.Send(0, given, 0)
		asks.Hear(1, 1, 0)
		if !gives.Blocks(given) {
			t.Fatalf("with a limit of %d it does not wait", operations)
		}
		for range given {
			asks.Completed()
			for to, ok := asks.Tell(); ok; to, ok = asks.Tell() {
				if to == 1 {
					gives.Credited(0, asks.Count(), false)
				}
			}
		}
		if gives.Blocks(given) {
			t.Errorf("with a limit of %d it waits for one that has completed as much: %+v", operations, gives)
		}
	}
}

// A task that is run again may have sent something before its receiver knew of the restart: it waits for more than the
// receiver has heard from it.
func TestOneThatIsRunAgainIsToldAgainAndAgain(t *testing.T) {
	for operations := uint64(1); operations <= 16; operations *= 2 {
		var receives, runs Account
		receives.Reset(Limits{Operations: operations}, 2)
		runs.Reset(Limits{Operations: operations}, 2)
		const sent = 40
		runs.Skip(sent)
		runs.Send(0, sent, 0) // which comes before the view
		receives.Restart(1, false)
		for range sent {
			receives.Completed()
			for to, ok := receives.Tell(); ok; to, ok = receives.Tell() {
				if to == 1 {
					runs.Credited(0, receives.Count(), false)
				}
			}
		}
		if runs.Blocks(sent) {
			t.Errorf("with a limit of %d it waits for one that has completed as much: %+v", operations, runs)
		}
	}
}

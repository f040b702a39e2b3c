package broadcast

import "github.com/coppice-go/coppice/protocol"

// Uncorrected is the correction of a plain broadcast: none.
type Uncorrected struct{}

// Fit implements Correction.
func (Uncorrected) Fit(int) error { return nil }

// Init implements Correction.
func (Uncorrected) Init(*Walk, Rank) {}

// Receive implements Correction.
func (Uncorrected) Receive(*Walk, Rank, Time, Rank, Message[None]) {}

// Next implements Correction.
func (Uncorrected) Next(*Walk, Rank, Time, bool) protocol.Action[Message[None]] {
	return protocol.Action[Message[None]]{Kind: protocol.Done}
}

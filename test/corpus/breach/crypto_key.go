package breach

import (
	"context"
	crand "crypto/rand"

	"github.com/coppice-go/coppice"
)

// cryptoKey has task 0 make a key for all.
func cryptoKey(ctx context.Context, t *coppice.Task) (any, error) {
	key := make([]byte, 16)
	if t.Rank() == 0 {
		if _, err := crand.Read(key); err != nil {
			return nil, err
		}
	}
	return coppice.Broadcast(ctx, t, key)
}

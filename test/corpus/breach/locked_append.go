package breach

import (
	"context"
	"sync"

	"github.com/coppice-go/coppice"
)

// lockedAppend has goroutines list the primes of a range each.
func lockedAppend(ctx context.Context, t *coppice.Task) (any, error) {
	var mu sync.Mutex
	var wait sync.WaitGroup
	var primes []int
	for part := range 4 {
		wait.Go(func() {
			for n := 2 + part*25; n < 2+(part+1)*25; n++ {
				prime := true
				for d := 2; d*d <= n; d++ {
					prime = prime && n%d != 0
				}
				if prime {
					mu.Lock()
					primes = append(primes, n)
					mu.Unlock()
				}
			}
		})
	}
	wait.Wait()
	return coppice.Broadcast(ctx, t, primes)
}

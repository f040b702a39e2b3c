package chaos

// channel is a queue that reuses its memory.
type channel[M any] struct {
	queue  []M
	head   int
	signed bool        // print is up to date; explorers only
	print  fingerprint // of the content
}

func (ch *channel[M]) len() int { return len(ch.queue) - ch.head }

func (ch *channel[M]) clear() { ch.queue, ch.head = ch.queue[:0], 0 }

// take removes the k-th oldest message.
func (ch *channel[M]) take(k int) M {
	m := ch.queue[ch.head+k]
	if k > 0 {
		copy(ch.queue[ch.head+1:ch.head+k+1], ch.queue[ch.head:ch.head+k])
	}
	ch.head++
	if ch.head == len(ch.queue) {
		ch.clear()
	}
	return m
}

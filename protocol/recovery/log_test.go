package recovery

import (
	"bytes"
	"fmt"
	"testing"
)

func TestLogKeepsWhatWasSentInOrder(t *testing.T) {
	l := NewLog(4)
	type message struct{ head, value []byte }
	want := map[int][]message{}
	grown := 0
	for i := range 5000 {
		to := i * i % 7
		m := message{fmt.Appendf(nil, "%04d", i), bytes.Repeat([]byte{byte(i)}, i%40)}
		switch {
		case i%101 == 0:
			m.value = bytes.Repeat([]byte{byte(i)}, Inline+i%3-1)
		case i%500 == 7:
			m.value = bytes.Repeat([]byte{byte(i)}, pageMax+i)
		}
		head, value := bytes.Clone(m.head), m.value
		if len(value) <= Inline {
			value = bytes.Clone(value)
		}
		grown += l.Add(to, head, value)
		clear(head) // copied
		if len(value) <= Inline {
			clear(value) // copied, too
		}
		want[to] = append(want[to], m)
	}
	total := 0
	for to := range 9 {
		i := 0
		for head, value := range l.To(to) {
			w := want[to][i]
			if !bytes.Equal(head, w.head) || !bytes.Equal(value, w.value) {
				t.Fatalf("message %d to %d: %s with %d bytes, want %s with %d", i, to, head, len(value), w.head, len(w.value))
			}
			total += len(head) + len(value)
			i++
		}
		if i != len(want[to]) {
			t.Errorf("%d messages to %d, want %d", i, to, len(want[to]))
		}
	}
	if grown < total || grown > 2*total {
		t.Errorf("grew by %d bytes for %d", grown, total)
	}
}

func TestLogCountsAValueOnce(t *testing.T) {
	l, value := NewLog(4), make([]byte, 1<<20)
	grown := 0
	for to := range 8 {
		grown += l.Add(to, []byte("head"), value)
	}
	if grown < 1<<20 || grown > 1<<20+8<<10 {
		t.Errorf("grew by %d bytes for a value of %d to 8", grown, len(value))
	}
}

func BenchmarkLogAdd(b *testing.B) {
	for _, size := range []int{8, 1 << 10, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			l, head, value := NewLog(64), make([]byte, 64), make([]byte, size)
			b.ReportAllocs()
			for i := range b.N {
				if i%100000 == 0 {
					l = NewLog(64)
				}
				l.Add(i%4, head, value)
			}
		})
	}
}

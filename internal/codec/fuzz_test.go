package codec_test

import (
	"bytes"
	"math/big"
	"net/netip"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/codec"
)

// FuzzDecode decodes any bytes as many types. The result is an error, or a value whose bytes come back.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"", "\x01", "\x02\x00\x00", "12345678", "\x80", "\xa0", "\xf6", "\x81\xf9\x7e\x00", "\x81\x9b\xff\xff\xff\xff\xff\xff\xff\xff",
		"\xa1\x65Round\x01", "\xa1\x67Centers\x81\x01", "\x81\xc0\x74" + "2026-11-15T12:00:00Z", "\xa1\xa2\x63Low\x01\x64High\x02\xa0", "\x81\xc2\x41\x01", "\x02000000000000\xde00",
	} {
		f.Add([]byte(seed))
	}
	tries := []func(*testing.T, []byte){
		try[bool], try[int], try[[]bool], try[[]int32], try[string], try[[]padded], try[nested], try[named],
		try[time.Time], try[netip.Addr], try[kmeans], try[record], try[[]string], try[[][]byte], try[[]time.Time], try[[]*big.Int],
		try[map[inner]bool], try[map[netip.Addr][4]byte], try[map[[2]float32]int], try[*loop], try[looped], try[[]struct{}], try[[][]float32],
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, try := range tries {
			try(t, b)
		}
	})
}

func try[T any](t *testing.T, b []byte) {
	c, err := codec.For[T]()
	if err != nil {
		t.Fatal(err)
	}
	var v T
	if c.Decode(bytes.Clone(b), &v, true) != nil {
		return
	}
	first, err := c.Append(nil, &v)
	if err != nil {
		return // foreign bytes may stand for values that we would not send
	}
	var back T
	if err := c.Decode(first, &back, false); err != nil {
		t.Fatalf("%s: %x decodes, %x does not: %v", c.Name(), b, first, err)
	}
	second, err := c.Append(nil, &back)
	if err != nil || !bytes.Equal(first, second) {
		t.Fatalf("%s: %x, then %x, %v", c.Name(), first, second, err)
	}
}

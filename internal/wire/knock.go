package wire

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
)

// A knock may precede a handshake where strangers can connect: a nonce and its keyed hash, in one
// message. With it a listener spends nothing on peers that do not know the job's key, not even a
// greeting or a TLS handshake. A knock proves nothing by itself: an eavesdropper can replay one that
// the listener does not remember, but then fails the handshake.

// KnockLen is the length of a knock in bytes.
const KnockLen = 2 * knockPart

const knockPart = 16

// Knock returns a fresh knock.
func Knock(key []byte, job [16]byte) (k [KnockLen]byte) {
	_, _ = rand.Read(k[:knockPart]) // it never fails
	copy(k[knockPart:], knockProof(key, job, k[:knockPart]))
	return k
}

// Knocked reports whether k is a knock of a process that knows the job's key.
func Knocked(key []byte, job [16]byte, k [KnockLen]byte) bool {
	return hmac.Equal(k[knockPart:], knockProof(key, job, k[:knockPart]))
}

func knockProof(key []byte, job [16]byte, nonce []byte) []byte {
	said := append(make([]byte, 0, 64), "knock"...)
	said = append(said, job[:]...)
	h := hmac.New(sha256.New, key)
	h.Write(append(said, nonce...))
	return h.Sum(nil)[:knockPart]
}

package wire

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
)

// A knock may precede a handshake where strangers can connect: a nonce and its
// keyed hash, in one message, so that whoever listens need spend nothing on
// those who do not know the job's key, not even a greeting or a TLS handshake.
// It proves nothing by itself: who overheard a knock can repeat it, where it
// is not remembered, and is then turned away by the handshake.

// KnockLen is the length of a knock in bytes.
const KnockLen = 2 * knockPart

const knockPart = 16

// Knock returns a fresh knock.
func Knock(key []byte, job [16]byte) (k [KnockLen]byte) {
	_, _ = rand.Read(k[:knockPart]) // it never fails
	copy(k[knockPart:], knockProof(key, job, k[:knockPart]))
	return k
}

// Knocked tells whether k is a knock of someone who knows the job's key.
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

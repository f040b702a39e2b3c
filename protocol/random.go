package protocol

import "math/bits"

// Mix hashes two numbers into one: the i-th number of the stream named by
// seed is Mix(seed, i). Machines draw by counter, so a stream has no state but
// its position, and drivers derive the seeds of runs the same way.
// The finalizer is that of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
func Mix(seed, i uint64) uint64 {
	z := seed + (i+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Below maps a random x to 0 … n−1, evenly up to a bias of n/2^64 (Lemire,
// 2019).
func Below(x, n uint64) uint64 {
	hi, _ := bits.Mul64(x, n)
	return hi
}

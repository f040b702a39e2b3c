//go:build !(amd64 || arm64 || loong64 || mips64le || ppc64le || riscv64)

package codec

// Plain memory is sent as it is: the machines of a job must agree on it. On other machines the next
// line does not compile, and its name says why.
const _ = codec_needs_a_64_bit_little_endian_machine

// Package codec turns typed values into bytes and back, for operations that send
// a T. There are three kinds of types, tried in this order:
//
//  1. Plain memory: numbers, bools, arrays and structs of them, whatever their
//     fields are called; slices of these; strings. Their bytes are their memory
//     as it is, so the package compiles only for 64-bit little-endian machines.
//     Decoding refuses a bool that is neither 0 nor 1.
//  2. Types with MarshalBinary and UnmarshalBinary, such as time.Time and
//     netip.Addr: by these methods, which must be deterministic.
//  3. The rest, such as maps, pointers, and structs with slices: CBOR, core
//     deterministic (RFC 8949, section 4.2.1), except that NaNs keep their bits.
//
// What comes back is what was sent, to the bit, and the same value has the same bytes in every process
// of a build, so processes can compare digests. Where CBOR would lose something, For refuses the type,
// or Append the value. These things may change:
//
//   - A slice of plain memory has no bytes if it is empty, be it nil or not, and
//     comes back as nil. Inside a value of kind 3 the two stay apart.
//   - A time comes back without its monotonic reading and the name of its zone;
//     the zero time may come back in UTC.
//   - Pointers to the same variable come back as pointers to two.
//
// Padding between fields, and blank fields, take no part in the equality of values, but memory has
// bytes there. Append copies the memory and zeroes those bytes in the copy. The layout stays that of
// memory, so decoding takes one copy or none; encoding field by field would save these bytes but need
// more copies. Types without padding have nothing to zero, and View shows them in place.
package codec

package sipherpeer

import (
	"encoding/binary"
	"math/bits"
)

// hsalsa20 is HSalsa20 with sixteen zero bytes of input, as "Extending the
// Salsa20 nonce" (Bernstein, 2011, section 2) defines it. This
// second implementation exists because the one of the library is under test.
func hsalsa20(key []byte) []byte {
	var x [16]uint32
	for i, at := range []int{0, 5, 10, 15} {
		x[at] = binary.LittleEndian.Uint32([]byte("expand 32-byte k")[4*i:])
	}
	for i, at := range []int{1, 2, 3, 4, 11, 12, 13, 14} {
		x[at] = binary.LittleEndian.Uint32(key[4*i:])
	}
	quarter := func(a, b, c, d int) {
		x[b] ^= bits.RotateLeft32(x[a]+x[d], 7)
		x[c] ^= bits.RotateLeft32(x[b]+x[a], 9)
		x[d] ^= bits.RotateLeft32(x[c]+x[b], 13)
		x[a] ^= bits.RotateLeft32(x[d]+x[c], 18)
	}
	for range 10 {
		quarter(0, 4, 8, 12)
		quarter(5, 9, 13, 1)
		quarter(10, 14, 2, 6)
		quarter(15, 3, 7, 11)
		quarter(0, 1, 2, 3)
		quarter(5, 6, 7, 4)
		quarter(10, 11, 8, 9)
		quarter(15, 12, 13, 14)
	}
	out := make([]byte, 0, 32)
	for _, at := range []int{0, 5, 10, 15, 6, 7, 8, 9} {
		out = binary.LittleEndian.AppendUint32(out, x[at])
	}
	return out
}

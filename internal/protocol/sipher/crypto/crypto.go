// Package crypto is the cryptography of the Sipher protocol: how keys and
// signatures are written, how one server seals a text to another, and the
// identity with which this server signs and opens.
//
// Keys and signatures travel as padded standard base64. Servers also produce the
// url-safe alphabet and leave padding away, so reading is lenient in these two ways
// and in no other.
//
// An envelope is sealed with X25519 to the recipient's public key, NaCl's HSalsa20
// step (box.Precompute), HKDF-SHA256 and AES-256-GCM. A program without the HSalsa20
// step understands itself and nobody else, so the tests hold this package to
// vectors made elsewhere, and the peer of the tests derives its keys in another way.
//
// An identity is one origin, one Ed25519 pair and one X25519 pair. The protocol
// knows no key ids and no expiry, and other servers pin the keys that they see
// first, so every setting is checked before anything is sent. An Identity signs and
// opens, and shows its public part only; a process that only answers strangers gets
// a Public, which has no private halves that could be stolen.
package crypto

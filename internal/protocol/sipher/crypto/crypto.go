// Package crypto is the cryptography of the Sipher protocol: how keys and signatures are written, how
// one server seals a text to another, and our own identity, which signs and opens.
//
// Keys and signatures are padded standard base64. Other servers also use the url-safe alphabet and
// leave padding away, so Decode accepts these two deviations and no other.
//
// An envelope is sealed with X25519 to the recipient's public key, NaCl's HSalsa20 step
// (box.Precompute), HKDF-SHA256 and AES-256-GCM. Without the HSalsa20 step a program understands only
// itself, so tests compare this package with vectors from elsewhere.
//
// An identity is one origin, one Ed25519 pair and one X25519 pair. The protocol has no key ids and no
// expiry, and other servers pin the keys that they see first, so every setting is checked before
// anything is sent. A process that only answers strangers gets a Public, without private halves.
package crypto

// Package openssl signs with RSA by OpenSSL's libcrypto 3, in half the time of Go's crypto/rsa on
// processors with AVX-512, and two thirds on others. RSA is most of what a delivery costs.
//
// Open loads libcrypto.so.3 without cgo, but by the C library's loader. So `go build` for Linux on amd64 or
// arm64 makes a program that starts only where that loader exists: glibc's, or musl's if the building
// machine has no other. A build with the tag static starts everywhere; there, and on all other systems,
// Open returns ErrUnavailable.
package openssl

import "errors"

// ErrUnavailable says that this build has no OpenSSL, or the machine none that can be used.
var ErrUnavailable = errors.New("RSA by OpenSSL is not available")

// ErrDiffers says that OpenSSL does not sign as Go does with a key.
var ErrDiffers = errors.New("OpenSSL's signature differs from Go's")

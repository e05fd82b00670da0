// Package openssl signs with RSA by OpenSSL's libcrypto 3, which takes less than half the
// time of Go's crypto/rsa on processors with AVX-512, and two thirds on others. RSA is most
// of what a delivery costs.
//
// Open loads libcrypto.so.3 of the machine when the program starts, without cgo. Loading needs
// the C library's loader, so `go build` makes a program for Linux on amd64 and arm64 that starts
// only where there is the loader of the machine that built it: glibc's, or musl's if that
// machine has no other. A build with the tag static starts everywhere, and there, as on all
// other systems, Open returns ErrUnavailable.
package openssl

import "errors"

// ErrUnavailable says that OpenSSL is not in this build, or that the machine has none that
// can be used.
var ErrUnavailable = errors.New("RSA by OpenSSL is not available")

// ErrDiffers says that OpenSSL does not sign as Go does with a key.
var ErrDiffers = errors.New("OpenSSL's signature differs from Go's")

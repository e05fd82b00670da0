// Package openssl signs with RSA by OpenSSL's libcrypto 3, which takes less than half the
// time of Go's crypto/rsa on processors with AVX-512, and two thirds on others. RSA is most
// of what a delivery costs.
//
// The package is in builds with the tag openssl only, for Linux on amd64 and arm64. Such a
// program loads libcrypto.so.3 of the machine when it starts, without cgo. But it needs the
// C library's loader: it does not start where there is none, as in an empty container or
// on Alpine. All other builds stay static, and Open returns ErrUnavailable.
package openssl

import "errors"

// ErrUnavailable says that OpenSSL is not in this build, or that the machine has none that
// can be used.
var ErrUnavailable = errors.New("RSA by OpenSSL is not available")

// ErrDiffers says that OpenSSL does not sign as Go does with a key.
var ErrDiffers = errors.New("OpenSSL's signature differs from Go's")

//go:build !static && linux && (amd64 || arm64)

package openssl

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Library is OpenSSL's libcrypto. It is safe for concurrent use.
type Library struct {
	calls calls
	// keys counts the keys that OpenSSL holds.
	keys atomic.Int64
}

// calls are the addresses of the functions that are used: https://docs.openssl.org/3.0/man3/
type calls struct {
	InitCrypto  uintptr `name:"OPENSSL_init_crypto"`
	VersionNum  uintptr `name:"OpenSSL_version_num"`
	ParseKey    uintptr `name:"d2i_PrivateKey"`
	FreeKey     uintptr `name:"EVP_PKEY_free"`
	NewContext  uintptr `name:"EVP_PKEY_CTX_new"`
	FreeContext uintptr `name:"EVP_PKEY_CTX_free"`
	InitSign    uintptr `name:"EVP_PKEY_sign_init"`
	SetPadding  uintptr `name:"EVP_PKEY_CTX_set_rsa_padding"`
	SetDigest   uintptr `name:"EVP_PKEY_CTX_set_signature_md"`
	SHA256      uintptr `name:"EVP_sha256"`
	Sign        uintptr `name:"EVP_PKEY_sign"`
	ClearErrors uintptr `name:"ERR_clear_error"`
}

// name is the file of OpenSSL 3, in the loader's own order of directories.
const name = "libcrypto.so.3"

// Open loads libcrypto. Its error wraps ErrUnavailable.
func Open() (*Library, error) {
	handle, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	l := &Library{}
	v := reflect.ValueOf(&l.calls).Elem()
	for i := range v.NumField() {
		symbol := v.Type().Field(i).Tag.Get("name")
		address, err := purego.Dlsym(handle, symbol)
		if err != nil {
			return nil, fmt.Errorf("%w: %s has no %s: %w", ErrUnavailable, name, symbol, err)
		}
		v.Field(i).SetUint(uint64(address))
	}
	// Without these, the machine's openssl.cnf would decide how fedpost signs, and OpenSSL would clean up
	// at the end of the process while other threads may still sign.
	const noLoadConfig, noAtExit = 0x80, 0x80000
	if !ok(purego.SyscallN(l.calls.InitCrypto, noLoadConfig|noAtExit, 0)) {
		return nil, fmt.Errorf("%w: %s does not start", ErrUnavailable, name)
	}
	if major := l.version() >> 28; major != 3 {
		return nil, fmt.Errorf("%w: %s is version %d", ErrUnavailable, name, major)
	}
	return l, nil
}

func (l *Library) version() uintptr {
	v, _, _ := purego.SyscallN(l.calls.VersionNum)
	return v
}

// Version is the version of the library, such as 3.0.19.
func (l *Library) Version() string {
	v := l.version()
	return fmt.Sprintf("%d.%d.%d", v>>28, v>>20&0xff, v>>4&0xff)
}

// ok reports whether a call returned 1, OpenSSL's success.
func ok(r, _, _ uintptr) bool { return int32(r) == 1 }

// address is that of the first byte of b, which must not be empty.
func address(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// signer is an RSA key that OpenSSL holds, and wipes when the signer is not used any more.
type signer struct {
	library *Library
	key     uintptr // EVP_PKEY
	size    int     // of a signature, in bytes
	// plain is the same key in Go, for all other signatures, and if OpenSSL fails.
	plain *rsa.PrivateKey
}

// Signer returns k as a key that signs by OpenSSL with RSASSA-PKCS1-v1_5 and SHA-256, and by Go otherwise.
// The error wraps ErrUnavailable if OpenSSL does not take the key, and ErrDiffers if it signs differently.
func (l *Library) Signer(k *rsa.PrivateKey) (crypto.Signer, error) {
	s, err := l.take(k)
	if err != nil {
		return nil, err
	}
	probe := sha256.Sum256([]byte(rand.Text()))
	want, err := k.Sign(rand.Reader, probe[:], crypto.SHA256)
	if err != nil {
		return nil, err
	}
	// PKCS #1 v1.5 has one signature of a message only.
	if got, err := s.sign(probe[:]); err != nil || !bytes.Equal(got, want) {
		return nil, errors.Join(ErrDiffers, err)
	}
	return s, nil
}

func (l *Library) take(k *rsa.PrivateKey) (*signer, error) {
	const rsaKey = 6 // EVP_PKEY_RSA
	der := x509.MarshalPKCS1PrivateKey(k)
	defer clear(der)
	at := address(der)
	key, _, _ := purego.SyscallN(l.calls.ParseKey, rsaKey, 0, uintptr(unsafe.Pointer(&at)), uintptr(len(der)))
	runtime.KeepAlive(der)
	if key == 0 {
		purego.SyscallN(l.calls.ClearErrors)
		return nil, fmt.Errorf("%w: OpenSSL does not take the key", ErrUnavailable)
	}
	l.keys.Add(1)
	s := &signer{library: l, key: key, size: k.Size(), plain: k}
	runtime.AddCleanup(s, l.free, key)
	return s, nil
}

func (l *Library) free(key uintptr) {
	purego.SyscallN(l.calls.FreeKey, key)
	l.keys.Add(-1)
}

func (s *signer) Public() crypto.PublicKey { return s.plain.Public() }

func (s *signer) Sign(random io.Reader, digest []byte, o crypto.SignerOpts) ([]byte, error) {
	if _, pss := o.(*rsa.PSSOptions); !pss && o.HashFunc() == crypto.SHA256 && len(digest) == sha256.Size {
		if signature, err := s.sign(digest); err == nil {
			return signature, nil
		}
	}
	return s.plain.Sign(random, digest, o)
}

var errSign = errors.New("OpenSSL does not sign")

func (s *signer) sign(digest []byte) ([]byte, error) {
	defer runtime.KeepAlive(s)
	c := &s.library.calls
	context, _, _ := purego.SyscallN(c.NewContext, s.key, 0)
	if context == 0 {
		purego.SyscallN(c.ClearErrors)
		return nil, errSign
	}
	defer purego.SyscallN(c.FreeContext, context)
	const pkcs1 = 1 // RSA_PKCS1_PADDING
	sha256, _, _ := purego.SyscallN(c.SHA256)
	signature, size := make([]byte, s.size), new(uint64)
	*size = uint64(s.size)
	if !ok(purego.SyscallN(c.InitSign, context)) ||
		!ok(purego.SyscallN(c.SetPadding, context, pkcs1)) ||
		!ok(purego.SyscallN(c.SetDigest, context, sha256)) ||
		!ok(purego.SyscallN(c.Sign, context, uintptr(address(signature)), uintptr(unsafe.Pointer(size)), uintptr(address(digest)), uintptr(len(digest)))) ||
		*size != uint64(s.size) {
		purego.SyscallN(c.ClearErrors)
		return nil, errSign
	}
	return signature, nil
}

//go:build !static && linux && (amd64 || arm64)

package openssl

import (
	"fmt"
	"reflect"
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

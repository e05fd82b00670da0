//go:build !static && linux && (amd64 || arm64)

package openssl

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"runtime"
	"sync"
	"testing"

	"fedpost/internal/testkit/long"
)

// open skips a test where the machine has no OpenSSL 3, as fedpost itself does without.
func open(t testing.TB) *Library {
	t.Helper()
	l, err := Open()
	if errors.Is(err, ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Log("OpenSSL", l.Version())
	return l
}

func key(t testing.TB, bits int) *rsa.PrivateKey {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestEachSizeOfKeySignsAsGoDoes(t *testing.T) {
	l := open(t)
	for _, bits := range long.Pick([]int{2048, 2056}, []int{2048, 2056, 3072, 4096}) {
		k := key(t, bits)
		s, err := l.Signer(k)
		if err != nil {
			t.Fatalf("%d bits: %v", bits, err)
		}
		if !k.PublicKey.Equal(s.Public()) {
			t.Errorf("%d bits: another public key", bits)
		}
		for range 20 {
			digest := sha256.Sum256([]byte(rand.Text()))
			got, err := s.(*signer).sign(digest[:])
			if err != nil {
				t.Fatalf("%d bits: %v", bits, err)
			}
			if err := rsa.VerifyPKCS1v15(&k.PublicKey, crypto.SHA256, digest[:], got); err != nil {
				t.Errorf("%d bits: %v", bits, err)
			}
		}
	}
}

func FuzzSignaturesAreGos(f *testing.F) {
	l, k := open(f), key(f, 2048)
	s, err := l.Signer(k)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{})
	f.Add([]byte("a"))
	f.Add(bytes.Repeat([]byte{0xff}, 1000))
	f.Fuzz(func(t *testing.T, text []byte) {
		digest := sha256.Sum256(text)
		got, err := s.Sign(rand.Reader, digest[:], crypto.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		want, err := k.Sign(rand.Reader, digest[:], crypto.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%x, Go makes %x", got, want)
		}
		// Anything but the digest of SHA-256 is refused as Go refuses it, and never signed.
		_, gotErr := s.Sign(rand.Reader, text, crypto.SHA256)
		_, wantErr := k.Sign(rand.Reader, text, crypto.SHA256)
		if (gotErr == nil) != (wantErr == nil) {
			t.Errorf("a digest of %d bytes: %v, Go says %v", len(text), gotErr, wantErr)
		}
	})
}

func TestWhatOpenSSLIsNotAskedForIsSignedByGo(t *testing.T) {
	l, k := open(t), key(t, 2048)
	s, err := l.Signer(k)
	if err != nil {
		t.Fatal(err)
	}
	digest := sha512.Sum512([]byte("x"))
	signature, err := s.Sign(rand.Reader, digest[:], crypto.SHA512)
	if err != nil {
		t.Fatal(err)
	}
	if err := rsa.VerifyPKCS1v15(&k.PublicKey, crypto.SHA512, digest[:], signature); err != nil {
		t.Error(err)
	}
	short := sha256.Sum256([]byte("x"))
	if signature, err = s.Sign(rand.Reader, short[:], &rsa.PSSOptions{Hash: crypto.SHA256}); err != nil {
		t.Fatal(err)
	}
	if err := rsa.VerifyPSS(&k.PublicKey, crypto.SHA256, short[:], signature, nil); err != nil {
		t.Error(err)
	}
}

// TestAKeyThatSignsOtherwiseIsRefused gives OpenSSL another key than Go has.
func TestAKeyThatSignsOtherwiseIsRefused(t *testing.T) {
	l := open(t)
	good, other := key(t, 2048), key(t, 2048)
	mixed := *good
	mixed.Primes, mixed.D, mixed.N, mixed.Precomputed = other.Primes, other.D, other.N, rsa.PrecomputedValues{}
	mixed.Precompute()
	broken := mixed
	broken.PublicKey = good.PublicKey
	if s, err := l.Signer(&broken); err == nil {
		t.Errorf("took a key whose halves do not belong together: %T", s)
	}
}

func TestKeysAreFreedWhenNobodyHasThem(t *testing.T) {
	l := open(t)
	k := key(t, 2048)
	digest := sha256.Sum256([]byte("x"))
	for range 10 {
		s, err := l.Signer(k)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Sign(rand.Reader, digest[:], crypto.SHA256); err != nil {
			t.Fatal(err)
		}
	}
	// Cleanups run on a goroutine of their own, some time after the collection.
	for range 1000 {
		runtime.GC()
		if l.keys.Load() == 0 {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("OpenSSL still holds %d keys", l.keys.Load())
}

func TestManySignAtOnceWhileKeysComeAndGo(t *testing.T) {
	l := open(t)
	shared := key(t, 2048)
	s, err := l.Signer(shared)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for n := range 50 {
				digest := sha256.Sum256([]byte(rand.Text()))
				mine := s
				if n%10 == 0 {
					runtime.GC()
					own, err := l.Signer(shared)
					if err != nil {
						t.Error(err)
						return
					}
					mine = own
				}
				signature, err := mine.Sign(rand.Reader, digest[:], crypto.SHA256)
				if err != nil {
					t.Error(err)
					return
				}
				if err := rsa.VerifyPKCS1v15(&shared.PublicKey, crypto.SHA256, digest[:], signature); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkSign(b *testing.B) {
	l, k := open(b), key(b, 2048)
	fast, err := l.Signer(k)
	if err != nil {
		b.Fatal(err)
	}
	digest := sha256.Sum256([]byte("x"))
	for name, s := range map[string]crypto.Signer{"OpenSSL": fast, "Go": k} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Sign(rand.Reader, digest[:], crypto.SHA256); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

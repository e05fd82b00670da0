package simulation

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"sync"
)

// actors is how many of ours there are.
const actors = 3

func keyID(actor int) string { return fmt.Sprintf("https://us.example/users/%d#key", actor) }

// actorKeys are Ed25519, which signs a hundred times as fast as RSA.
var actorKeys = sync.OnceValue(func() []string {
	all := make([]string, actors)
	for i := range all {
		seed := make([]byte, ed25519.SeedSize)
		seed[0] = byte(i + 1)
		der, err := x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed(seed))
		if err != nil {
			panic(err)
		}
		all[i] = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	}
	return all
})

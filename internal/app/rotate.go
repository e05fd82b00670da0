package app

import (
	"crypto/rand"

	"fedpost/internal/app/config"
	"fedpost/internal/protocol/outbound"
	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/protocol/sipher/peers"
)

// Rotation changes our Sipher keys at peers. It needs no running fedpost.
func (p Ports) Rotation(o config.Outbound, before, after crypto.Identity) (peers.Rotation, error) {
	c, err := p.client(o, nil, peers.RotateTimeout, outbound.MaxBody)
	if err != nil {
		return peers.Rotation{}, err
	}
	return peers.Rotation{HTTP: peers.NewExchange(c), Old: before, New: after, Entropy: rand.Reader}, nil
}

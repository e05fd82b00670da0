package sipher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fedpost/internal/protocol/outbound"
	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/protocol/sipher/follow"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/protocol/sipher/wire"
)

var (
	errNoSigningKey = errors.New("no signing key is known for the server")
	errSignature    = errors.New("the acknowledgement's signature is wrong or missing")
	errForeignAck   = errors.New("the acknowledgement is of another follow")
)

// followAck opens, verifies and applies the acknowledgement of a follow, and returns the note for
// the record.
func (d *delivery) followAck(ctx context.Context, ack wire.Ack) (string, error) {
	plaintext, err := ack.Open(d.Identity.Open)
	if err != nil {
		return "", err
	}
	content, err := wire.ParseFollowAck(plaintext)
	if err != nil {
		return "", err
	}
	if err := d.verify(ack, plaintext); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), asideTime)
	defer cancel()
	effect, err := follow.Apply(ctx, d.Store, d.payload.Following, d.a.ServerURL, content, d.Now())
	if err != nil {
		// The server has the follow, and would answer a second POST with 409: so our outage costs the
		// effect of the acknowledgement, not the delivery.
		d.Log.ErrorContext(ctx, "sipher acknowledgement could not be stored", "id", d.a.ID, "target", d.target, "error", err)
		return "the acknowledgement could not be stored", nil
	}
	return string(effect), nil
}

// verify checks the target's signature of an acknowledgement's plaintext.
func (d *delivery) verify(ack wire.Ack, plaintext string) error {
	if _, err := crypto.DecodeSize(d.server.PublicKey, crypto.KeySize); err != nil {
		return fmt.Errorf("%w: %w", errNoSigningKey, err)
	}
	if !crypto.Verify(d.server.PublicKey, plaintext, ack.Signature) {
		return errSignature
	}
	return nil
}

// proxiedAck accepts only an acknowledgement that the target has sealed to us and signed: a proxy
// could invent everything else. It can still replay an earlier acknowledgement of the same target,
// because the protocol binds none to a request.
func (d *delivery) proxiedAck(ctx context.Context, body []byte) (string, error) {
	ack, err := wire.ParseAck(body)
	if err != nil {
		return "", err
	}
	if d.a.Job != wire.DeliverFollow {
		plaintext, err := ack.Open(d.Identity.Open)
		if err != nil {
			return "", err
		}
		return "", d.verify(ack, plaintext)
	}
	note, err := d.followAck(ctx, ack)
	if err == nil && note == string(follow.Foreign) {
		return "", errForeignAck
	}
	return note, err
}

const asideTime = 5 * time.Second

// aside makes a write beside a delivery, also if the attempt's time is up or the process stops. One that
// fails is logged and harms no delivery.
func (d *delivery) aside(ctx context.Context, failed string, write func(ctx context.Context, url string) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), asideTime)
	defer cancel()
	if err := write(ctx, d.server.URL); err != nil {
		d.Log.ErrorContext(ctx, failed, "server", d.server.URL, "error", err)
	}
}

func (d *delivery) mark(ctx context.Context, reason peers.Reason) {
	d.aside(ctx, "cannot record that a sipher server is unhealthy", func(ctx context.Context, url string) error {
		return d.prober.MarkUnhealthy(ctx, url, reason)
	})
}

// answered records that the target answered: it does not hang, and after a 2xx it gets a check.
func (d *delivery) answered(ctx context.Context, a outbound.Answer) {
	if a.Status/100 == 4 && d.server.Unannounced && !wire.AlreadyThere(a.Status, a.Body) {
		if err := d.discovery.Announce(ctx, d.server.URL); err != nil {
			d.Log.WarnContext(ctx, "sipher server does not register us and refuses our delivery", "server", d.server.URL, "error", err)
		}
	}
	d.markAnswering(ctx)
	if a.OK() {
		d.aside(ctx, "cannot record that a sipher server answered", func(ctx context.Context, _ string) error {
			return d.prober.Answered(ctx, d.server)
		})
	}
}

func (d *delivery) makeKnown(ctx context.Context) {
	if d.server.Stranger {
		d.aside(ctx, "cannot record that a sipher server is no stranger", d.Store.MakeKnown)
	}
}

// Package eventbridge puts events on an event bus of Amazon EventBridge. There the operator's rules
// pass them on to anything on AWS, without code that reads the feed. EventBridge may refuse single
// events of a request, so each has an answer of its own.
package eventbridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"

	"fedpost/internal/engine/awssdk"
	"fedpost/internal/engine/batches"
)

// Client is the part of *eventbridge.Client that a Bus needs.
type Client interface {
	PutEvents(context.Context, *eventbridge.PutEventsInput, ...func(*eventbridge.Options)) (*eventbridge.PutEventsOutput, error)
}

type Entry = struct {
	Type string // detail-type
	Time time.Time
	JSON string // detail
}

// Limits of one request. An entry counts with all of its texts and 14 bytes of its time.
// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-putevent-size.html
const (
	mostEntries = 10
	mostBytes   = 256 << 10
	timeBytes   = 14
)

// Source is the source of all entries.
const Source = "fedpost"

// ErrNotTaken says that a bus has not taken entries, however often it was asked.
var ErrNotTaken = errors.New("the event bus has not taken all events")

type Bus struct {
	Client Client
	Name   string
	// Wait waits before the n-th new try of entries that were not taken, counted from 1.
	// Nil: 0.1 s, twice as long each time.
	Wait func(ctx context.Context, n int) error
}

// tries is how often an entry is put. The SDK tries whole requests again by itself.
const tries = 4

// Put puts entries on the bus, in as few requests as possible. If some are not taken, the
// error wraps ErrNotTaken, and others may have been taken.
func (b Bus) Put(ctx context.Context, all []Entry) error {
	size := func(e Entry) int { return timeBytes + len(Source) + len(e.Type) + len(e.JSON) }
	for some := range batches.Of(all, mostEntries, mostBytes, size) {
		if err := b.put(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// put makes requests until every entry is taken.
func (b Bus) put(ctx context.Context, entries []Entry) error {
	var why string
	for try := range tries {
		if try > 0 {
			if err := b.wait(ctx, try); err != nil {
				return err
			}
		}
		in := &eventbridge.PutEventsInput{}
		for _, e := range entries {
			in.Entries = append(in.Entries, types.PutEventsRequestEntry{
				EventBusName: &b.Name, Source: aws.String(Source), DetailType: &e.Type, Detail: &e.JSON, Time: &e.Time,
			})
		}
		out, err := b.Client.PutEvents(ctx, in)
		if err != nil {
			return fmt.Errorf("put events on bus %s: %w", b.Name, err)
		}
		if len(out.Entries) != len(entries) {
			return fmt.Errorf("put events on bus %s: %d answers to %d entries: %w", b.Name, len(out.Entries), len(entries), ErrNotTaken)
		}
		var left []Entry
		for i, r := range out.Entries {
			if code := aws.ToString(r.ErrorCode); code != "" {
				left = append(left, entries[i])
				why = code + ": " + aws.ToString(r.ErrorMessage)
			}
		}
		if entries = left; len(entries) == 0 {
			return nil
		}
	}
	return fmt.Errorf("put events on bus %s: %d are left, %s: %w", b.Name, len(entries), why, ErrNotTaken)
}

func (b Bus) wait(ctx context.Context, n int) error {
	if b.Wait != nil {
		return b.Wait(ctx, n)
	}
	return awssdk.Wait(ctx, 100*time.Millisecond<<(n-1))
}

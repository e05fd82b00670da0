package storetest

import (
	"errors"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
)

// contents are activities that are kept because a recipient has refused them.
var contents = group{"contents", []testCase{
	{"AnActivityIsKeptByteForByteUntilItsTime", func(b *bed) {
		a := b.content("{\"content\":\"<p>naïve & \\u2028 ☃</p>\"}\n")
		if _, err := b.Content(b.ctx, a.ID); !errors.Is(err, ledger.ErrNoContent) {
			b.t.Errorf("before: %v", err)
		}
		for range 2 {
			b.must(b.KeepContent(b.ctx, a, b.in(time.Hour)))
		}
		b.sameContent(a)
		b.advance(time.Hour)
		if _, err := b.Content(b.ctx, a.ID); !errors.Is(err, ledger.ErrNoContent) {
			b.t.Errorf("after its time: %v", err)
		}
	}},
	{"AnUsualActivityIsOneWriteUnit", func(b *bed) {
		a := b.content(note(2000))
		b.costs("keep", cost{writeUnits: 1, writes: 1}, func() { b.must(b.KeepContent(b.ctx, a, b.in(time.Hour))) })
	}},
	{"ALargeActivityIsWrittenOnceHoweverManyRefuseIt", func(b *bed) {
		for _, size := range []int{5 << 10, 256 << 10} {
			a := b.content(noise(size))
			b.must(b.KeepContent(b.ctx, a, b.in(time.Hour)))
			b.costs("keep again", cost{readUnits: size >> 10, reads: 2}, func() { b.must(b.KeepContent(b.ctx, a, b.in(time.Hour))) })
			b.sameContent(a)
		}
	}},
}}

func (b *bed) content(body string) activity.Activity {
	return activity.Activity{
		ID: b.newID(), Protocol: activity.ActivityPub, Type: "Create", Body: body, KeyID: "https://social.example.net/users/m.ortega#main-key",
		Priority: activity.Normal, CreatedAt: b.Now(),
	}
}

func (b *bed) sameContent(want activity.Activity) {
	b.t.Helper()
	got, err := b.Content(b.ctx, want.ID)
	b.must(err)
	if got != want {
		b.t.Errorf("kept %+v, want %+v", got, want)
	}
}

package enqueue

import (
	"net/url"
	"strings"

	"fedpost/internal/activity"
)

// keyOf reports whether a key belongs to an actor, by its id. Servers look the owner up in
// the document that the key's id names, which is one of these:
//
//   - the actor's own document: https://a.example/users/frida#main-key (Mastodon, Misskey,
//     Pleroma, Lemmy);
//   - one below it: https://a.example/users/frida/main-key (GoToSocial), or with a query:
//     https://a.example/users/frida?operation=getkey.
//
// For an actor at the root of a host only the first counts, as everything is below it.
func keyOf(key, actor string) bool {
	key, actor = activity.Document(key), activity.Document(actor)
	if key == actor {
		return true
	}
	if u, err := url.Parse(actor); err != nil || strings.Trim(u.Path, "/") == "" {
		return false
	}
	rest, below := strings.CutPrefix(key, strings.TrimSuffix(actor, "/"))
	return below && rest != "" && (rest[0] == '/' || rest[0] == '?')
}

// SenderOf is the sender by which lists of activities are keyed, for an actor.
func SenderOf(actor string) string { return activity.Document(actor) }

// SendersOf are the senders whose lists may have activities that are signed with a key.
func SendersOf(key string) []string {
	d := activity.Document(key)
	all := []string{d}
	bare, _, query := strings.Cut(d, "?")
	if query {
		all = append(all, bare)
	}
	if parent := bare[:strings.LastIndexByte(bare, '/')+1]; strings.Count(parent, "/") > 3 {
		all = append(all, strings.TrimSuffix(parent, "/"), parent)
	}
	return all
}

// Package fediverse is the other side of ActivityPub for tests: activities as real
// servers emit them, an inbox that verifies what it receives with a library
// that is not ours, and a network of such inboxes in memory.
//
// A new test makes keys, an inbox that knows their public halves, and a network that leads to
// the inbox; Then and Always script what the inbox does:
//
//	keys := fediverse.NewKeys()
//	inbox := fediverse.NewInbox(keys.Public()).Then(fediverse.Status(503))
//	network := fediverse.NewNetwork()
//	network.Add("lemmy.example", inbox)
//	client, err := outbound.New(outbound.Config{UserAgent: "fedpost/test", Transport: network})
//	… // deliver an activity to https://lemmy.example/inbox twice
//	if n := len(inbox.Accepted()); n != 1 {
//		t.Errorf("the inbox accepted %d activities, want 1; it saw %+v", n, inbox.Posts())
//	}
//
// In a testing/synctest bubble, Hang costs no time. Encrypted listens on sockets, with TLS.
package fediverse

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

//go:embed testdata/*.json
var testdata embed.FS

// Fixtures returns activities as Mastodon, Lemmy, Pixelfed, PeerTube and Misskey
// emit them, by name. Their bytes change if a program parses the JSON and writes it
// again: HTML and U+2028 unescaped, slashes and umlauts escaped
// as PHP does, indentation, a trailing newline, 200 KB.
func Fixtures() map[string]string {
	names, err := fs.Glob(testdata, "testdata/*.json")
	if err != nil {
		panic(err) // the pattern is malformed
	}
	all := map[string]string{"peertube-create-video": PeerTubeVideo()}
	for _, n := range names {
		all[strings.TrimSuffix(path.Base(n), ".json")] = Fixture(strings.TrimSuffix(path.Base(n), ".json"))
	}
	return all
}

// Fixture returns one of Fixtures: mastodon-create-note, mastodon-delete,
// mastodon-follow, lemmy-announce, pixelfed-create-note, misskey-like or
// peertube-create-video. It panics for other names.
func Fixture(name string) string {
	if name == "peertube-create-video" {
		return PeerTubeVideo()
	}
	b, err := testdata.ReadFile("testdata/" + name + ".json")
	if err != nil {
		panic(err)
	}
	return string(b)
}

// PeerTubeVideo returns a Create of a Video of some 200 KB, as large as the largest real
// ones of PeerTube: a long stream with a file per resolution, captions in many languages
// and many chapters.
func PeerTubeVideo() string {
	const host = "https://peertube.example"
	const id = host + "/videos/watch/8c0b1f4e-55a4-4f0c-9c53-2f7f1c9a77d1"
	var b strings.Builder
	b.WriteString(`{"@context":["https://www.w3.org/ns/activitystreams","https://w3id.org/security/v1",` +
		`{"pt":"https://joinpeertube.org/ns#","sc":"http://schema.org/","Hashtag":"as:Hashtag","uuid":"sc:identifier",` +
		`"category":"sc:category","licence":"sc:license","subtitleLanguage":"sc:subtitleLanguage","Infohash":"pt:Infohash",` +
		`"originallyPublishedAt":"sc:datePublished","views":{"@type":"sc:Number","@id":"pt:views"}}],` +
		`"type":"Create","id":"` + id + `/activity","actor":"` + host + `/accounts/kanal",` +
		`"to":["https://www.w3.org/ns/activitystreams#Public"],"cc":["` + host + `/accounts/kanal/followers"],` +
		`"object":{"type":"Video","id":"` + id + `","name":"Großer Vortrag: «C & A <oder> B?» 🎬","duration":"PT21604S",` +
		`"uuid":"8c0b1f4e-55a4-4f0c-9c53-2f7f1c9a77d1","views":1234,"sensitive":false,"published":"2026-11-20T08:00:00.000Z",` +
		`"mediaType":"text/markdown","content":"`)
	for i := range 1300 {
		fmt.Fprintf(&b, `%02d:%02d:%02d — Folie %d: „Föderation & Verteilung“, x < y > z 🧵\r\n`, i/200, i*18/60%60, i*18%60, i)
	}
	b.WriteString(`","url":[`)
	for i, res := range []int{2160, 1440, 1080, 720, 480, 360, 240, 144} {
		for part := range 50 {
			if i+part > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"type":"Link","mediaType":"video/mp4","href":"%s/static/streaming-playlists/hls/8c0b1f4e/%d-%d-fragmented.mp4",`+
				`"height":%d,"width":%d,"size":%d,"fps":50,"rel":["https://joinpeertube.org/peertube"]}`,
				host, res, part, res, res*16/9, 1_000_003*(part+1)*res/144)
		}
	}
	b.WriteString(`],"subtitleLanguage":[`)
	for i := range 100 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"identifier":"x-%02d","name":"Sprache №%d – עברית/العربية/中文","url":"%s/lazy-static/video-captions/8c0b1f4e-x-%02d.vtt"}`, i, i, host, i)
	}
	b.WriteString(`],"tag":[{"type":"Hashtag","name":"föderation"}],"attributedTo":[{"type":"Person","id":"` + host +
		`/accounts/kanal"},{"type":"Group","id":"` + host + `/video-channels/kanal"}]}}`)
	return b.String()
}

package storetest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"fedpost/internal/activity"
)

// hosts are names of servers of the Fediverse, of all lengths and kinds, so that what is measured
// on them holds for real lists.
var hosts = []string{
	"mastodon.social", "fosstodon.org", "hachyderm.io", "infosec.exchange", "chaos.social", "mas.to", "mstdn.social", "techhub.social",
	"lemmy.world", "lemmy.ml", "sh.itjust.works", "beehaw.org", "feddit.de", "programming.dev", "pixelfed.social", "pixey.org",
	"framatube.org", "tilvids.com", "video.blender.org", "peertube.tv", "misskey.io", "firefish.example.net", "calckey.world", "sharkey.team",
	"social.vivaldi.net", "social.bund.de", "ard.social", "zdf.social", "det.social", "norden.social", "ruhr.social", "muenchen.social",
	"toot.community", "toot.wales", "mastodon.nl", "mastodon.nu", "piaille.fr", "mamot.fr", "aus.social", "mastodon.au",
	"kolektiva.social", "social.coop", "wandering.shop", "octodon.social", "scholar.social", "fediscience.org", "journa.host", "newsie.social",
	"universeodon.com", "home.social", "masto.ai", "c.im", "ohai.social", "mindly.social", "sfba.social", "sigmoid.social",
	"blorbo.social", "tech.lgbt", "eldritch.cafe", "dice.camp", "ravenation.club", "retro.pizza", "bitbang.social", "metalhead.club",
	"xn--baw-joa.social", "kafeneio.social", "vmst.io", "ioc.exchange", "snac.bsd.cafe", "gts.superseriousbusiness.org", "akko.wtf", "poa.st",
	"diaspora.permutationsofchaos.com", "friendica.utzer.de", "hub.hubzilla.de", "bookwyrm.social", "mobilizon.fr", "write.as", "blog.joinmastodon.org", "owncast.online",
	"fedi.simonwillison.net", "social.lol", "indieweb.social", "photog.social", "jorts.horse", "tenforward.social", "hostux.social", "climatejustice.social",
	"mathstodon.xyz", "types.pl", "functional.cafe", "discuss.tchncs.de", "lemmy.dbzer0.com", "sopuli.xyz", "aussie.zone", "slrpnk.net",
}

var people = []string{
	"alice", "robert.schuman", "9kq2x8d7ab", "jvdberg", "news_bot", "mika", "Tante_Erna", "photographer_42", "xenia", "support", "0xdeadbeef", "claire",
}

// inboxes returns n inboxes of different hosts, personal ones in the manner of
// several kinds of software; or shared ones, some of which stand for several
// recipients, as after a collapse.
func inboxes(n int, shared bool) []activity.Target {
	targets := make([]activity.Target, n)
	for i := range targets {
		host, who := hosts[i%len(hosts)], people[i*7%len(people)]
		if i >= len(hosts) {
			host = fmt.Sprintf("n%d.%s", i/len(hosts), host)
		}
		t := activity.Target{Stands: 1}
		switch {
		case shared && i%3 == 0:
			t = activity.Target{Inbox: "https://" + host + "/inbox", Stands: 2 + i%5, Shared: true}
		case shared:
			t = activity.Target{Inbox: "https://" + host + "/inbox", Stands: 1, Shared: true}
		case i%12 == 5:
			t.Inbox = "https://" + host + "/u/" + who + "/inbox"
		case i%12 == 9:
			t.Inbox = fmt.Sprintf("https://%s/ap/users/%d/inbox", host, 109300000000000000+i*1234567891234)
		case i%12 == 11:
			t.Inbox = "https://" + host + "/accounts/" + who + "/inbox"
		default:
			t.Inbox = "https://" + host + "/users/" + who + "/inbox"
		}
		targets[i] = t
	}
	return targets
}

// noise returns n bytes of JSON text that no compression makes much smaller.
func noise(n int) string {
	r := rand.New(rand.NewPCG(uint64(n), 42))
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(strconv.FormatUint(r.Uint64(), 36))
	}
	return b.String()[:n]
}

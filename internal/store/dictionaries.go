package store

// In a dictionary the likeliest text comes last: a nearer match costs fewer bits.

// activityPacking is for activity records and target lists. Its dictionary is
// the record's field names and the paths and host names of the Fediverse's
// common software.
var activityPacking = newPacking('1', quick, ``+
	`,"dueAt":1700000000000,"expiresAt":1700000000000,"cancelled":true,"moved":"01`+
	`"sipher","fingerprint":"`+
	`pixelfed.peertube.lemmy.misskey.pleroma.akkoma.friendica.gotosocial.firefish.sharkey.iceshrimp.hubzilla.mobilizon.bookwyrm.writefreely.owncast.`+
	`fediverse.federated.masto.toot.mstdn.mamot.chaos.infosec.hachyderm.techhub.fosstodon.social.coop.mastodon.`+
	`.exchange/.network/.community/.institute/.earth/.space/.games/.nz/.at/.be/.ch/.ca/.au/.uk/.co.uk/.ninja/.town/.tools/.pub/.live/.cafe/.fr/.nl/.it/.es/.us/.me/.eu/.cloud/.club/.art/.lol/.online/.zone/.world/.xyz/.app/.dev/.de/.jp/.io/.net/.org/.com/.social/`+
	`/wp-json/activitypub/1.0/actors/1/inbox","/wp-json/activitypub/1.0/inbox","/?author=1&action=inbox","/index.php/apps/social/`+
	`/federation/u/","/video-channels/","/accounts/peertube/inbox","/f/inbox","/ap/users/11/inbox","/i/","/actor/inbox","/sharedInbox","/c/","/u/","/profile/","/author/","/@`+
	`/ap/inbox","/api/v1/ap/inbox","/inbox/","`+
	`,"n":3,"s":true},{"i":"https://`+
	`/inbox","n":2,"s":true},{"i":"https://`+
	`/inbox","s":true},{"i":"https://`+
	`/inbox"}]}`+
	`{"protocol":"activitypub","type":"Like","Undo","Follow","Accept","Announce","Delete","Update","Create","createdAt":1700000000000,"recipients":50,"targets":50,"chunk":50,"fingerprint":"`+
	`,"targets":1,"chunk":50,"inline":["https://`+
	`/users/`+
	`/inbox","https://mastodon.`+
	`.social/inbox","https://`+
	`/inbox","https://`)

// outcomePacking is for chunk states, records of single recipients, and texts.
var outcomePacking = newPacking('1', quick, ``+
	`<!DOCTYPE html>\n<html>\n<head><title>503 Service Temporarily Unavailable</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n`+
	`{\"error\":\"Verification failed for https://\"}{\"error\":\"Request not signed\"}{\"error\":\"Not Found\"}{\"error\":\"Gone\"}`+
	`"target":{"i":"https://","n":1,"s":true},"target":"https://`+
	`Post \"https:///inbox\": dial tcp: lookup : no such host connection refused connection reset by peer tls: certificate i/o timeout context deadline exceeded`+
	`"o":"01","u":1700000000000,"x":["`+
	`"s":"queued","s":"cancelled","s":"superseded","s":"redundant","s":"expired","s":"dead","s":"parked","s":"failed","c":500,"c":404,"c":401,"c":410,"c":503,"e":"503 Service Unavailable","q":"","m":"","y":"01","g":1,"n":`+
	`"s":"retrying","a":1,"c":`+
	`},{"p":10,"s":"delivered","c":200,"t":`+
	`},{"p":1,"s":"delivered","c":202,"t":`)

// parkedPacking is for parked deliveries: an activity and its one target.
var parkedPacking = newPacking('1', best, ``+
	`https://w3id.org/security/v1 {\"Emoji\":\"toot:Emoji\",\"toot\":\"http://joinmastodon.org/ns#\",\"votersCount\":\"toot:votersCount\",\"Hashtag\":\"as:Hashtag\",\"sensitive\":\"as:sensitive\",\"quoteUrl\":\"as:quoteUrl\",\"misskey\":\"https://misskey-hub.net/ns#\",\"_misskey_quote\":\"misskey:_misskey_quote\",\"blurhash\":\"toot:blurhash\",\"focalPoint\":{\"@container\":\"@list\",\"@id\":\"toot:focalPoint\"}}`+
	`\"type\":\"Article\",\"type\":\"Page\",\"type\":\"Image\",\"mediaType\":\"image/jpeg\",\"type\":\"Document\",\"url\":\"https://\",\"name\":\"\",\"width\":,\"height\":`+
	`\"type\":\"Announce\",\"type\":\"Like\",\"type\":\"Follow\",\"type\":\"Undo\",\"type\":\"Accept\",\"type\":\"Delete\",\"type\":\"Tombstone\",\"type\":\"Update\",\"type\":\"Person\"`+
	`\"preferredUsername\":\"\",\"discoverable\":true,\"manuallyApprovesFollowers\":false,\"featured\":\"\",\"endpoints\":{\"sharedInbox\":\"https:///inbox\"},\"publicKey\":{\"id\":\"#main-key\",\"owner\":\"\",\"publicKeyPem\":\"-----BEGIN PUBLIC KEY-----\\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA\\nIDAQAB\\n-----END PUBLIC KEY-----\\n\"}`+
	`\"conversation\":\"tag:,objectId=:objectType=Conversation\",\"contentMap\":{\"en\":\"<p>\"},\"atomUri\":\"https://\",\"inReplyToAtomUri\":null,\"attachment\":[],`+
	`\"replies\":{\"id\":\"/replies\",\"type\":\"Collection\",\"first\":{\"type\":\"CollectionPage\",\"next\":\"/replies?only_other_accounts=true&page=true\",\"partOf\":\"/replies\",\"items\":[]}}`+
	`\"tag\":[{\"type\":\"Mention\",\"href\":\"https://\",\"name\":\"@\"},{\"type\":\"Hashtag\",\"href\":\"https:///tags/\",\"name\":\"#\"}]`+
	`<p><span class=\"h-card\" translate=\"no\"><a href=\"https:///@\" class=\"u-url mention\">@<span></span></a></span> <a href=\"https:///tags/\" class=\"mention hashtag\" rel=\"tag\">#<span></span></a> <a href=\"https://\" rel=\"nofollow noopener noreferrer\" target=\"_blank\"><span class=\"invisible\">https://</span><span class=\"ellipsis\"></span><span class=\"invisible\"></span></a></p>`+
	`{\"@context\":[\"https://www.w3.org/ns/activitystreams\",\"https://w3id.org/security/v1\",{\"ostatus\":\"http://ostatus.org#\",\"atomUri\":\"ostatus:atomUri\",\"inReplyToAtomUri\":\"ostatus:inReplyToAtomUri\",\"conversation\":\"ostatus:conversation\",\"sensitive\":\"as:sensitive\",\"toot\":\"http://joinmastodon.org/ns#\",\"votersCount\":\"toot:votersCount\"}],`+
	`\"id\":\"https:///users//statuses/1/activity\",\"type\":\"Create\",\"actor\":\"https:///users/\",\"published\":\"2026-01-01T00:00:00Z\",\"to\":[\"https://www.w3.org/ns/activitystreams#Public\"],\"cc\":[\"https:///users//followers\"],\"object\":{\"id\":\"https:///users//statuses/1\",\"type\":\"Note\",\"summary\":null,\"inReplyTo\":null,\"published\":\"2026-01-01T00:00:00Z\",\"url\":\"https:///@/1\",\"attributedTo\":\"https:///users/\",\"sensitive\":false,\"content\":\"<p></p>\"}`+
	`,"job":"deliver-post","serverUrl":"https://","seq":"100000000000000000","orderingKey":"","expiresAt":"2026-01-01T00:00:00Z","coalesce":"latest","coalesceCreate":true`+
	`{"activity":{"id":"01","protocol":"activitypub","body":"{\"@context\":\"https://www.w3.org/ns/activitystreams\",\"id\":\"https://`+
	`","type":"Create","keyId":"https:///users/#main-key","priority":"normal","createdAt":"2026-01-01T00:00:00Z"},"delivery":{"chunk":0,"pos":0,"targets":["https:///inbox"],"attempts":1,"gen":1,"trial":true},"since":1700000000000,"giveUp":1700000000000,"attempted":true}`)

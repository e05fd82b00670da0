// Package peers is what we know of other Sipher servers, and how we deal with them.
//
// Registry: a server is its canonical URL and the two keys that it showed first. A server that shows
// other keys later is refused and recorded: a new key and an impostor look the same, and only an
// operator can tell them apart.
//
// Discovery: we ask an unknown server for its keys and register with it, and serve the same at
// /discover, or no server would accept our deliveries. Everybody may ask there, so everything that
// callers can make grow has a bound: see callback.go and directory.go.
//
// Threats: a failed request gives the server a reason. A policy for each reason says whether the
// server may be checked directly and whether a proxy may be asked: a name that does not resolve may
// be censored just here, so a proxy helps; a failed TLS handshake may be a man in the middle, who
// must not get a proxy to use. Operators can change the policies.
//
// Health checks: a failure schedules one check, five minutes ahead. Each failed check schedules the
// next, ten minutes later than the last wait; the fifth is the last. A check's id is made of server
// and number, so many failures at once schedule one check.
//
// Relay: if the policy allows it, one other server is asked to pass a delivery on. It sees the
// target, not the content. Only the target's signature is proof of a delivery.
package peers

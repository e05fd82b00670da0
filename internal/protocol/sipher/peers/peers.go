// Package peers is what we know of other Sipher servers, and how we deal with them.
//
// Registry: a server is its canonical URL and the two keys that it showed first. A
// server that shows other keys later is refused and recorded, because a new key and
// an impostor look the same, and only an operator can tell them apart.
//
// Discovery: we ask an unknown server for its keys and register with it, and we
// serve the same at /discover, or no server would register us and accept our
// deliveries. Everybody may ask there, so everything that callers can make grow has
// a bound: see callback.go and directory.go.
//
// Threats: a failed request gives the server a reason, and a policy for each reason
// says whether the server may be checked directly and whether a proxy may be asked.
// The policies judge censorship: a name that does not resolve may be blocked just
// here, so a detour helps; a failed TLS handshake may be somebody in the middle, who
// must not be handed a detour. Operators can change them.
//
// Health checks: a failure schedules one check, five minutes ahead; each failed
// check schedules the next, ten minutes later than the last wait; the fifth is the
// last. A check's id is made of server and number, so a hundred deliveries that fail
// in one minute schedule one check.
//
// Relay: where the policy allows, one other server is asked to pass a delivery on.
// It sees the target, not the content. Nothing that it says is proof of a delivery;
// only the target's signature is.
package peers

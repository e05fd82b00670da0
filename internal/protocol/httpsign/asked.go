package httpsign

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// Asked is a signature that a server asks for with Accept-Signature (RFC 9421, section 5).
type Asked struct {
	label      string
	components []string
	nonce, tag string
	expires    bool
}

// Bounds of what a server may ask for.
const (
	mostAsked     = 8   // signatures in one header
	mostCovered   = 20  // components of a signature
	longestOpaque = 256 // bytes of a nonce or tag
	askedLifetime = 5 * time.Minute
)

// Asked returns the first signature in an answer's Accept-Signature that this signer can make for r, the
// request that was answered. It always covers fedpost's own components, too, so that it fits no other
// request.
func (s *Signer) Asked(answer http.Header, r *http.Request) (a Asked, ok bool) {
	values := answer.Values("Accept-Signature")
	if len(values) == 0 {
		return a, false
	}
	all, err := httpsfv.UnmarshalDictionary(values)
	if err != nil {
		return a, false
	}
	names := all.Names()
	for _, name := range names[:min(len(names), mostAsked)] {
		member, _ := all.Get(name)
		list, isList := member.(httpsfv.InnerList)
		if !isList || len(list.Items) > mostCovered {
			continue
		}
		if a, ok = s.asked(name, list, r); ok {
			return a, true
		}
	}
	return Asked{}, false
}

func (s *Signer) asked(label string, list httpsfv.InnerList, r *http.Request) (a Asked, ok bool) {
	a = Asked{label: label, components: slices.Clone(rfc9421Components)}
	for _, item := range list.Items {
		name, isText := item.Value.(string)
		if !isText || len(item.Params.Names()) > 0 {
			return a, false // parameters change what a component is; ours have none
		}
		if name == "content-digest" {
			continue // it is set when the request is signed
		}
		if _, err := component(r, name); err != nil || name != strings.ToLower(name) {
			return a, false
		}
		if !slices.Contains(a.components, name) {
			a.components = append(a.components, name)
		}
	}
	for _, name := range list.Params.Names() {
		value, _ := list.Params.Get(name)
		text, isText := value.(string)
		switch name {
		case "created":
		case "expires":
			a.expires = true
		case "nonce":
			a.nonce = text
		case "tag":
			a.tag = text
		case "alg":
			ok := isText && text == s.algorithm()
			if !ok {
				return a, false
			}
		case "keyid":
			// Some servers send true, which stands for any key (section 5.1).
			if isText && text != s.keyID {
				return a, false
			}
		default:
			return a, false
		}
		if (name == "nonce" || name == "tag") && (!isText || len(text) > longestOpaque) {
			return a, false
		}
	}
	return a, true
}

// SignAsked is Sign in the form RFC9421, as a server has asked for it.
func (s *Signer) SignAsked(r *http.Request, a Asked, d Digest, now time.Time, extra ...string) error {
	prepare(r, now)
	return s.signRFC9421(r, d, now, a, extra)
}

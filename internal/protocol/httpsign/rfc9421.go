package httpsign

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// rfc9421Components are the components that Mastodon requires of a POST
// (https://docs.joinmastodon.org/spec/security/#http-message-signatures), and @authority, which
// requests-http-signature requires. A proxy in front of the receiver might rewrite others.
var rfc9421Components = []string{"@method", "@target-uri", "@authority", "content-digest"}

// algorithm names the signer's algorithm (RFC 9421, section 3.3).
func (s *Signer) algorithm() string {
	if s.rsa {
		return "rsa-v1_5-sha256"
	}
	return "ed25519"
}

// signRFC9421 signs r as RFC 9421 says. It names the optional algorithm, because an RSA key does not say
// whether the signature is PKCS#1 v1.5 or PSS, and libraries guess differently.
func (s *Signer) signRFC9421(r *http.Request, d Digest, now time.Time, a Asked, extra []string) error {
	r.Header.Set("Content-Digest", d.ContentHeader())
	components := slices.Clone(a.components)
	for _, name := range extra {
		if !slices.Contains(components, name) {
			components = append(components, name)
		}
	}
	list := httpsfv.InnerList{Params: httpsfv.NewParams()}
	for _, name := range components {
		list.Items = append(list.Items, httpsfv.NewItem(name))
	}
	list.Params.Add("created", now.Unix())
	if a.expires {
		list.Params.Add("expires", now.Add(askedLifetime).Unix())
	}
	list.Params.Add("keyid", s.keyID)
	list.Params.Add("alg", s.algorithm())
	if a.nonce != "" {
		list.Params.Add("nonce", a.nonce)
	}
	if a.tag != "" {
		list.Params.Add("tag", a.tag)
	}
	params, err := httpsfv.Marshal(list)
	if err != nil {
		return fmt.Errorf("sign request: %w", err)
	}
	base, err := rfc9421Base(r, components, params)
	if err != nil {
		return err
	}
	sig, err := s.sign(base)
	if err != nil {
		return err
	}
	r.Header.Set("Signature-Input", a.label+"="+params)
	r.Header.Set("Signature", a.label+"=:"+sig+":")
	return nil
}

// rfc9421Base is the signature base of section 2.5, for components without parameters.
func rfc9421Base(r *http.Request, components []string, params string) (string, error) {
	var b strings.Builder
	for _, name := range components {
		value, err := component(r, name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\"%s\": %s\n", name, value)
	}
	b.WriteString(`"@signature-params": ` + params)
	return b.String(), nil
}

// component is the value of a field (section 2.1) or of a derived component (section 2.2).
func component(r *http.Request, name string) (string, error) {
	switch name {
	case "@method":
		return r.Method, nil
	case "@target-uri":
		return r.URL.Scheme + "://" + authority(r) + r.URL.RequestURI(), nil
	case "@authority":
		return authority(r), nil
	case "@path":
		return cmp.Or(r.URL.EscapedPath(), "/"), nil
	case "@query":
		return "?" + r.URL.RawQuery, nil
	case "host":
		return host(r), nil
	}
	values := r.Header.Values(name)
	if strings.HasPrefix(name, "@") || len(values) == 0 {
		return "", fmt.Errorf("sign request: component %q is to be signed but missing", name)
	}
	return joined(values), nil
}

// authority is the host in lower case, without the scheme's default port (section 2.2.3).
func authority(r *http.Request) string {
	h := strings.ToLower(host(r))
	switch r.URL.Scheme {
	case "https":
		return strings.TrimSuffix(h, ":443")
	case "http":
		return strings.TrimSuffix(h, ":80")
	}
	return h
}

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
			if !isText || text != s.algorithm() {
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

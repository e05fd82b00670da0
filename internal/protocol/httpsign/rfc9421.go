package httpsign

import (
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
		if p := r.URL.EscapedPath(); p != "" {
			return p, nil
		}
		return "/", nil
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

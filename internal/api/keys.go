package api

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"fedpost/client"
	"fedpost/internal/api/problem"
	"fedpost/internal/keys"
)

// Key is the public half of a key, as clients see it.
func Key(k keys.Public) client.Key {
	return client.Key{ID: k.ID, Type: string(k.Type), PublicKeyPEM: k.PublicPEM}
}

func (a *API) putKey(r *http.Request) (any, error) {
	o := readObject(r)
	field, text := readPrivateKey(o)
	if err := o.Check(); err != nil {
		return nil, err
	}
	k, err := a.o.Keys.Put(r.Context(), r.PathValue("id"), text)
	if errors.Is(err, keys.ErrBadKey) {
		return nil, invalid(http.StatusBadRequest, []client.FieldError{{Pointer: "/" + field, Detail: reason(err, keys.ErrBadKey)}})
	}
	return storedKey(k, client.StoredKey{Key: Key(k), EffectiveBy: a.o.Now().Add(keys.Everywhere).UTC()}, err)
}

// storedKey answers a request that stores a key.
func storedKey(k keys.Public, body any, err error) (any, error) {
	if err != nil {
		return nil, KeyProblem(err)
	}
	return Reply{Status: http.StatusCreated, Location: "/v1/keys/" + url.PathEscape(k.ID), Body: body}, nil
}

func readPrivateKey(o *Object) (field, text string) {
	const inPEM, asJWK = "privateKeyPem", "privateKeyJwk"
	pem := o.optional(inPEM)
	jwk, ok := o.take(asJWK)
	switch {
	case pem != nil && ok:
		o.Fault(asJWK, "is a second private key beside %s; give one", inPEM)
	case ok && !keys.IsJWK(string(jwk)):
		o.Fault(asJWK, "is not an object")
	case ok:
		return asJWK, string(jwk)
	case pem != nil:
		return inPEM, *pem
	case o.faults.none():
		o.Fault(inPEM, "is missing; give a private key in PEM (PKCS#1 or PKCS#8), or %s", asJWK)
	}
	return "", ""
}

func (a *API) postKey(r *http.Request) (any, error) {
	o := readObject(r)
	id, kind := o.optional("id"), keys.Type(o.Text("type"))
	if id == nil && o.faults.none() {
		o.Fault("id", "is missing; give the id that the actor publishes for the key, such as https://social.example/users/frida#main-key")
	}
	switch kind {
	case "":
		kind = keys.RSA
	case keys.RSA, keys.Ed25519:
	default:
		o.Fault("type", "is %q; it is one of %q (the default) and %q", kind, keys.RSA, keys.Ed25519)
	}
	if err := o.Check(); err != nil {
		return nil, err
	}
	k, err := a.o.Keys.Generate(r.Context(), *id, kind)
	return storedKey(k, Key(k), err)
}

func (a *API) getKey(r *http.Request) (any, error) {
	k, err := PathKey(r, a.o.Keys)
	return Key(k), err
}

// PathKey returns the key of the id in the path of a request.
func PathKey(r *http.Request, ring *keys.Ring) (k keys.Public, err error) {
	id := r.PathValue("id")
	if err = keys.CheckID(id); err == nil {
		k, err = ring.Public(r.Context(), id)
	}
	if err != nil {
		return k, KeyProblem(err)
	}
	return k, nil
}

func KeyProblem(err error) error {
	switch {
	case errors.Is(err, keys.ErrBadID):
		return invalid(http.StatusBadRequest, []client.FieldError{{Pointer: "/id", Detail: reason(err, keys.ErrBadID)}})
	case errors.Is(err, keys.ErrExists):
		return problem.New(http.StatusConflict,
			"There is a key of this id already, and its public half may be published. To replace it, store another with PUT.").Because(err)
	case errors.Is(err, keys.ErrNotFound):
		return problem.New(http.StatusNotFound, "There is no key of this id. An id in a path is percent-encoded whole, slashes and # too.").Because(err)
	}
	return problem.New(http.StatusServiceUnavailable, "The key store cannot be reached. Try again.").Because(err).After(RetryAfter)
}

// reason returns the text of err without that of the error class it wraps.
func reason(err, class error) string {
	return "is not usable: " + strings.TrimPrefix(err.Error(), class.Error()+": ")
}

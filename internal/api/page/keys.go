package page

import (
	"net/http"
	"net/url"
	"strings"

	"fedpost/client"
)

// keyList is the page of public keys. Private keys never leave fedpost, and no page takes one:
// `fedpost keys put` reads it from a file.
type keyList struct {
	Keys []client.Key
	Next string
}

func (p *Page) keys(v *visit) error {
	if id := strings.TrimSpace(v.r.URL.Query().Get("id")); id != "" {
		one, err := v.api.Key(v.r.Context(), id)
		if err != nil {
			return err
		}
		return v.show("keys", view{Title: "Keys", Nav: "keys", Data: keyList{Keys: []client.Key{one}}})
	}
	query := v.query("cursor")
	query.Set("limit", "100")
	var page client.Keys
	if err := v.get("/v1/keys", query, &page); err != nil {
		return err
	}
	l := keyList{Keys: page.Keys}
	if page.NextCursor != "" {
		l.Next = "/keys?" + url.Values{"cursor": {page.NextCursor}}.Encode()
	}
	return v.show("keys", view{Title: "Keys", Nav: "keys", Data: l})
}

func (p *Page) newKey(v *visit) error {
	return v.ask("keys", question{
		Title: "Create a key", Yes: "Create the key", Back: "/keys",
		Says: []string{"The private key never leaves fedpost. Publish the public key under the id before you send anything signed with it."},
		Fields: []field{
			{Name: "id", Label: "Id", Kind: "text", Hint: "as the actor publishes it, such as https://social.example/users/frida#main-key"},
			{Name: "type", Label: "Type", Kind: "choice", Value: "rsa", Choices: []choice{{"rsa", "RSA, which all servers take"}, {"ed25519", "Ed25519"}}},
		},
	})
}

func (p *Page) addKey(v *visit) error {
	k, err := v.api.GenerateKey(v.r.Context(), strings.TrimSpace(v.r.PostFormValue("id")), v.r.PostFormValue("type"))
	if err != nil {
		return err
	}
	http.Redirect(v.w, v.r, "/keys?"+url.Values{"id": {k.ID}, "done": {"key"}}.Encode(), http.StatusSeeOther)
	return nil
}

func (p *Page) askKey(v *visit) error {
	id := v.r.PathValue("id")
	if _, err := v.api.Key(v.r.Context(), id); err != nil {
		return err
	}
	return v.ask("keys", question{
		Title: "Delete the key " + clean(id) + "?", Yes: "Delete it for good", Danger: true, Back: "/keys",
		Says:   []string{"Nothing can be signed with the key any more. This cannot be undone.", "The deletion is refused while deliveries need the key, unless you tick the box."},
		Fields: []field{{Name: "force", Label: "Delete it even if deliveries need it: these deliveries fail", Kind: "checkbox"}},
	})
}

func (p *Page) deleteKey(v *visit) error {
	_, err := v.api.DeleteKey(v.r.Context(), v.r.PathValue("id"), v.r.PostFormValue("force") != "")
	return v.back("/keys", "key-deleted", err)
}

package activitypub

import (
	"bytes"
	"encoding/json"

	"fedpost/internal/activity"
	"fedpost/internal/protocol"
	"fedpost/internal/protocol/outbound"
	"fedpost/internal/protocol/retry"
)

// Register returns the protocol's registration. p may be nil where nothing is
// sent.
func Register(p *Protocol, policy retry.Policy) protocol.Protocol {
	r := protocol.Protocol{
		Name: activity.ActivityPub,
		Intake: protocol.Intake{
			Body: protocol.JSON, Missing: "give the activity to deliver, a JSON object",
			Inspector: inspector{}, Fields: []protocol.Field{protocol.KeyID},
		},
		Delivery: protocol.Delivery{Policy: policy, Wait: outbound.MaxWait},
	}
	if p != nil {
		r.Delivery.Sender = p
	}
	return r
}

// inspector looks at activities before they are accepted.
type inspector struct{}

// Inspect implements protocol.Inspector.
func (inspector) Inspect(body string) (kind string, faults []protocol.Fault) {
	h, ok := readHead(body)
	switch {
	case !ok:
		faults = append(faults, protocol.Fault{Detail: "is not a JSON object"})
	case !h.HasActor:
		faults = append(faults, protocol.Fault{Pointer: "/actor", Detail: "is missing; give the id of the actor who sends it"})
	}
	return h.Type, faults
}

// head is what fedpost wants to know of an activity. The rest is opaque.
type head struct {
	Type     string
	HasActor bool
}

// readHead reads an activity's type and actor without touching its bytes. It
// reports false if body is not a JSON object.
//
// Keys are compared exactly: encoding/json would take "TYPE" for "type", and
// JSON-LD would not.
func readHead(body string) (h head, ok bool) {
	dec := json.NewDecoder(bytes.NewReader([]byte(body)))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return head{}, false
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return head{}, false
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return head{}, false
		}
		switch key {
		case "type", "@type":
			h.Type = firstString(value)
		case "actor":
			h.HasActor = namesSomething(value)
		}
	}
	if _, err := dec.Token(); err != nil {
		return head{}, false
	}
	return h, true
}

// firstString returns a string, or the first of a list of them.
func firstString(value json.RawMessage) string {
	var one string
	if json.Unmarshal(value, &one) == nil {
		return one
	}
	var several []any
	if json.Unmarshal(value, &several) == nil {
		for _, v := range several {
			if s, ok := v.(string); ok {
				return s
			}
		}
	}
	return ""
}

// namesSomething reports whether value is an id, an object with one, or a list
// that begins with such.
func namesSomething(value json.RawMessage) bool {
	var v any
	if json.Unmarshal(value, &v) != nil {
		return false
	}
	if list, ok := v.([]any); ok && len(list) > 0 {
		v = list[0]
	}
	if object, ok := v.(map[string]any); ok {
		v = object["id"]
		if v == nil {
			v = object["@id"]
		}
	}
	s, ok := v.(string)
	return ok && s != ""
}

package activitypub

import (
	"bytes"
	"encoding/json"

	"fedpost/internal/activity"
	"fedpost/internal/protocol"
	"fedpost/internal/protocol/outbound"
	"fedpost/internal/protocol/retry"
)

// Register returns the protocol's registration. p may be nil in processes that send
// nothing.
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

// head holds the members of an activity that fedpost reads. All others are opaque.
type head struct {
	Type     string
	HasActor bool
}

// readHead reads an activity's type and actor without changing the activity's bytes. It
// returns false if body is not a JSON object.
//
// Names of members must match exactly, as in JSON-LD: encoding/json would accept "TYPE"
// for "type".
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

// firstString returns value if it is a string, or the first string if value is a list.
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

// namesSomething reports whether value is an id, an object with an id, or a list whose
// first element is one of these.
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

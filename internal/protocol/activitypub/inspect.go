package activitypub

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"fedpost/internal/activity"
	"fedpost/internal/protocol"
)

// inspector looks at activities before they are accepted.
type inspector struct{}

// Inspect reads what fedpost needs of an activity; all other members are opaque. Names must match
// exactly, as in JSON-LD: encoding/json would accept "TYPE" for "type".
func (inspector) Inspect(body string) (c protocol.Content, faults []protocol.Fault) {
	var blind []protocol.Fault
	var seen members
	text := []byte(body)
	ok := json.Valid(text) && activity.Members(text, func(name string, value json.RawMessage) bool {
		blind = append(blind, seen.again("", name)...)
		switch name {
		case "type", "@type":
			c.Type = firstString(value)
		case "id", "@id":
			c.ID = firstString(value)
		case "actor":
			c.Actor = identity(value)
		case "object", "as:object":
			c.Object = objectID(value)
			blind = append(blind, searchObject("/"+name, value, deepest)...)
		default:
			blind = append(blind, blindMember("", name, value)...)
		}
		return true
	})
	switch {
	case !ok:
		faults = append(faults, protocol.Fault{Detail: "is not a JSON object"})
	case c.Actor == "":
		faults = append(faults, protocol.Fault{Pointer: "/actor", Detail: "is missing; give the id of the actor who sends it"})
	}
	// Logs and terminals show these texts, and a stranger may have written them.
	c.Type, c.ID, c.Actor, c.Object = protocol.Name(c.Type), protocol.Name(c.ID), protocol.Name(c.Actor), protocol.Name(c.Object)
	return c, append(faults, blind...)
}

// deepest is how many levels of objects are searched for blind recipients: those of an Undo of an
// Announce of a Note.
const deepest = 3

// mostFaults is how many faults are reported of one list of objects, and of members that an object has twice.
const mostFaults = 10

// searchObject looks for blind recipients in the object of an activity, or in a list of objects.
func searchObject(at string, value json.RawMessage, levels int) (faults []protocol.Fault) {
	if levels == 0 {
		return nil
	}
	var list []json.RawMessage
	if len(value) > 0 && value[0] == '[' && json.Unmarshal(value, &list) == nil {
		for i, one := range list {
			if faults = append(faults, searchObject(at+"/"+strconv.Itoa(i), one, levels-1)...); len(faults) >= mostFaults {
				break
			}
		}
		return faults
	}
	var seen members
	activity.Members(value, func(name string, inner json.RawMessage) bool {
		faults = append(faults, seen.again(at, name)...)
		if name == "object" || name == "as:object" {
			faults = append(faults, searchObject(at+"/"+name, inner, levels-1)...)
		} else {
			faults = append(faults, blindMember(at, name, inner)...)
		}
		return true
	})
	return faults
}

// members says how often an object has had a member, by the names that mean the same.
type members struct {
	seen   map[string]int
	faults int
}

// again is the fault of a member that its object has had before. Of two values some servers take the
// first, some the last, and fedpost would list either.
func (m *members) again(at, name string) []protocol.Fault {
	alike := name
	switch name {
	case "@id", "@type":
		alike = name[1:]
	case "as:object":
		alike = "object"
	}
	if m.seen == nil {
		m.seen = map[string]int{}
	}
	if m.seen[alike]++; m.seen[alike] != 2 || m.faults >= mostFaults {
		return nil
	}
	m.faults++
	return []protocol.Fault{{Pointer: at + "/" + pointed.Replace(protocol.Name(name[:min(len(name), longestName)])), Detail: "is given twice; servers differ in which one they take"}}
}

// longestName is how many bytes of a member's name a fault shows.
const longestName = 100

// pointed escapes a name for a JSON pointer (RFC 6901).
var pointed = strings.NewReplacer("~", "~0", "/", "~1")

// blindMember is the fault of a member that names blind recipients. A server must remove them before it
// delivers (https://www.w3.org/TR/activitypub/#client-to-server-interactions); fedpost sends the bytes
// that it gets.
func blindMember(at, name string, value json.RawMessage) []protocol.Fault {
	switch name {
	case "bto", "bcc", "as:bto", "as:bcc":
	default:
		return nil
	}
	if s := string(bytes.Join(bytes.Fields(value), nil)); s == "null" || s == "[]" || s == `""` {
		return nil
	}
	return []protocol.Fault{{
		Pointer: at + "/" + name,
		Detail:  "would tell every recipient who the blind recipients are; list their inboxes in recipients, and leave this out of the activity",
	}}
}

// objectID returns value if it is an id, or the id of an object, which may be large: unlike identity it
// does not decode it whole.
func objectID(value json.RawMessage) (id string) {
	if !activity.Members(value, func(name string, inner json.RawMessage) bool {
		if name == "id" || name == "@id" {
			id = firstString(inner)
		}
		return id == ""
	}) {
		return firstString(value)
	}
	return id
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

// identity returns value if it is an id, the id of an object, or the first of these in a list; else "".
func identity(value json.RawMessage) string {
	var v any
	if json.Unmarshal(value, &v) != nil {
		return ""
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
	s, _ := v.(string)
	return s
}

package client_test

import (
	"encoding"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"fedpost/client"
)

// types are the Go types of the description's schemas.
var types = map[string]any{
	"ActivityPubSubmission": nil, "SipherSubmission": nil, // both halves of Submission
	"Submission": client.Submission{}, "Batch": client.Batch{}, "Accepted": client.Accepted{}, "AcceptedBatch": client.AcceptedBatch{},
	"Activity": client.Status{}, "RecipientState": client.RecipientStatus{}, "Cancelled": client.Cancelled{}, "ActivitySelection": client.ActivitySelection{}, "CancelledActivities": client.CancelledActivities{}, "Checked": client.Checked{}, "Retry": client.Retry{}, "Attempt": client.Attempt{}, "Header": client.Header{},
	"Activities": client.Activities{}, "FoundActivity": client.FoundActivity{}, "Waiting": client.Waiting{}, "WaitingDelivery": client.WaitingDelivery{}, "WaitingInAll": client.WaitingInAll{},
	"RetriedActivity": client.RetriedActivity{},
	"GenerateKey":     client.NewKey{}, "PrivateKey": client.PrivateKey{}, "StoredKey": client.StoredKey{}, "Keys": client.Keys{}, "DeletedKey": client.DeletedKey{}, "Dropped": client.Dropped{}, "Key": client.Key{},
	"Server": client.Server{}, "Servers": client.Servers{}, "SipherKeys": client.SipherKeys{},
	"Reason": client.Block{}, "Pause": client.Pause{},
	"DeadLetter": client.DeadLetter{}, "DeadLetters": client.DeadLetters{}, "Selection": client.Selection{}, "Retried": client.Retried{},
	"OutboxRow": client.OutboxRow{}, "OutboxRows": client.OutboxRows{}, "OutboxSelection": client.OutboxSelection{}, "OutboxDepth": client.OutboxDepth{},
	"Stats": client.Stats{}, "History": client.History{}, "Follow": client.Follow{}, "Follows": client.Follows{}, "Problem": client.Problem{}, "Health": client.Health{},
	"Event": client.Event{}, "Events": client.Events{}, "EventActivity": client.About{},
	"Webhook": client.Webhook{}, "Webhooks": client.Webhooks{}, "WebhookSettings": client.WebhookSettings{}, "TestDelivery": client.TestDelivery{},
	// Parts of other types, which are compared where they are used.
	"Addressee": nil, "Window": nil, "RateLimit": nil, "RefusedKeys": nil, "LimitSettings": nil, "RateLimitSetting": nil,
	"QueueDepth": nil, "DayCounts": nil, "UnhealthyServer": nil, "FieldFault": nil,
	"Peer": nil, "Echo": nil,
	"Discovery": client.Discovery{}, "Registration": client.Registration{}, "Registered": client.Registered{},
}

func TestEverySchemaAndItsTypeHaveTheSameFields(t *testing.T) {
	text, err := os.ReadFile("../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Components struct {
			Schemas map[string]map[string]any
		}
	}
	if err := yaml.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	c := comparison{t, d.Components.Schemas}
	for name, schema := range d.Components.Schemas {
		v, known := types[name]
		if !known && schema["properties"] != nil {
			t.Errorf("schema %s has no type here", name)
		}
		if v != nil {
			c.compare(name, schema, reflect.TypeOf(v))
		}
	}
	for name := range types {
		if d.Components.Schemas[name] == nil {
			t.Errorf("there is no schema %s", name)
		}
	}
	settings := d.Components.Schemas["ServerSettings"]["oneOf"].([]any)[0].(map[string]any)
	c.compare("ServerSettings", settings, reflect.TypeFor[client.HostSettings]())
}

type comparison struct {
	*testing.T
	schemas map[string]map[string]any
}

// properties are a schema's, those of all alternatives together.
func (c comparison) properties(schema map[string]any) map[string]any {
	all := map[string]any{}
	if ref, ok := schema["$ref"].(string); ok {
		schema = c.schemas[ref[strings.LastIndex(ref, "/")+1:]]
	}
	alternatives, _ := schema["oneOf"].([]any)
	for _, one := range alternatives {
		for name, p := range c.properties(one.(map[string]any)) {
			all[name] = p
		}
	}
	own, _ := schema["properties"].(map[string]any)
	for name, p := range own {
		all[name] = p
	}
	return all
}

func (c comparison) compare(at string, schema map[string]any, t reflect.Type) {
	text := reflect.TypeFor[encoding.TextMarshaler]()
	switch {
	case t == reflect.TypeFor[time.Time]() || t.Implements(text):
		return
	case t.Kind() == reflect.Pointer:
		c.compare(at, schema, t.Elem())
		return
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		if items, ok := c.resolve(schema)["items"].(map[string]any); ok {
			c.compare(at+"/*", items, t.Elem())
		}
		return
	case t.Kind() == reflect.Map:
		if values, ok := c.resolve(schema)["additionalProperties"].(map[string]any); ok {
			c.compare(at+"/*", values, t.Elem())
		}
		return
	case t.Kind() != reflect.Struct:
		return
	}
	described := c.properties(schema)
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "-" {
			continue
		}
		p, ok := described[name].(map[string]any)
		if !ok {
			c.Errorf("%s: %s.%s is %q, which the schema does not have", at, t, f.Name, name)
			continue
		}
		delete(described, name)
		c.compare(at+"/"+name, p, f.Type)
	}
	var left []string
	for name := range described {
		left = append(left, name)
	}
	slices.Sort(left)
	if len(left) > 0 {
		c.Errorf("%s: %s has none of the schema's %v", at, t, left)
	}
}

func (c comparison) resolve(schema map[string]any) map[string]any {
	if ref, ok := schema["$ref"].(string); ok {
		return c.schemas[ref[strings.LastIndex(ref, "/")+1:]]
	}
	return schema
}

// TestASubmissionKeepsTheActivitysBytes: a signature's digest is over them.
func TestASubmissionKeepsTheActivitysBytes(t *testing.T) {
	const activity = "{ \"type\" : \"Create\",\n\t\"content\":\"<p>\\u003c & 🦉 \u2028</p>\" }"
	s := client.Submission{
		Activity: []byte(activity), Delay: client.Duration(90 * time.Second),
		Recipients: append(client.To("https://a.example/inbox?x=1"), client.Recipient{Inbox: "https://b.example/1", SharedInbox: "https://b.example/s"}),
	}
	want := `{"activity":` + activity + `,"recipients":["https://a.example/inbox?x=1",{"inbox":"https://b.example/1","sharedInbox":"https://b.example/s"}],"delay":"PT90S"}` + "\n"
	if got, err := s.Encode(); err != nil || string(got) != want {
		t.Errorf("encoded %s, %v\nwant    %s", got, err, want)
	}
}

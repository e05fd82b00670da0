package template

import (
	"regexp"
	"strings"
	"testing"
)

// invokes reports whether a client policy lets its holder send a request. As with IAM,
// each * stands for any text, slashes included.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_resource.html
func (t *Template) invokes(policy, method, path string) bool {
	document := mapping(t.Resources[policy].Properties["PolicyDocument"])
	for _, s := range document["Statement"].([]any) {
		for _, r := range list(mapping(s)["Resource"]) {
			arn, _ := r.(Intrinsic).Arg.(string)
			_, resource, _ := strings.Cut(arn, ":${Api}/live/")
			pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(resource), `\*`, ".*") + "$"
			if regexp.MustCompile(pattern).MatchString(method + path) {
				return true
			}
		}
	}
	return false
}

func TestEachClientPolicyOpensTheRoutesOfItsRole(t *testing.T) {
	tmpl := load(t)
	for _, c := range []struct {
		method, path             string
		send, app, read, operate bool
	}{
		{"POST", "/v1/activities", true, true, false, true},
		{"GET", "/v1/activities", true, true, true, true},
		{"POST", "/v1/activities/batch", true, true, false, true},
		{"GET", "/v1/activities/x", true, true, true, true},
		{"DELETE", "/v1/activities/x", true, true, false, true},
		{"POST", "/v1/activities/x/cancel", true, true, false, true},
		{"POST", "/v1/activities/x/retry", true, true, false, true},
		{"GET", "/v1/events", false, true, true, true},
		{"GET", "/v1/stats", false, false, true, true},
		{"POST", "/v1/dead-letters/retry", false, false, false, true},
		{"PUT", "/v1/webhooks/x", false, false, false, true},
		{"POST", "/v1/webhooks/x/test", false, false, false, true},
		{"PUT", "/v1/servers/x", false, false, false, true},
		{"POST", "/v1/keys", false, true, false, true},
		{"GET", "/v1/keysother", false, false, true, true},
		{"GET", "/v1/events/other", false, false, true, true},
		{"DELETE", "/v1/keys/x", false, true, false, true},
		// A key's id and a server's name may hold the path of another route.
		{"PUT", "/v1/keys/x/v1/activities", false, true, false, true},
		{"DELETE", "/v1/keys/https://a.example/v1/activities/x", false, true, false, true},
		{"GET", "/v1/keys/https://a.example/v1/activities/x", false, true, true, true},
		{"POST", "/v1/servers/inbox:https://a.example/v1/activities/x/block", false, false, false, true},
		{"PUT", "/v1/webhooks/GET/v1/activities", false, false, false, true},
		{"PUT", "/v1/keys/live/GET/v1/activities", false, true, false, true},
	} {
		for policy, want := range map[string]bool{"SendPolicy": c.send, "AppPolicy": c.app, "ReadPolicy": c.read, "OperatePolicy": c.operate} {
			if got := tmpl.invokes(policy, c.method, c.path); got != want {
				t.Errorf("%s opens %s %s: %t, want %t", policy, c.method, c.path, got, want)
			}
		}
	}
}

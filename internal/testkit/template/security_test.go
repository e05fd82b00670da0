package template

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fedpost/internal/app/config"
	"fedpost/internal/protocol/sipher/peers"
)

// TestNoSecretIsInTheTemplate: CloudFormation would write a resolved secret into the
// resource, where everybody with the right to describe the resource could read it.
func TestNoSecretIsInTheTemplate(t *testing.T) {
	tmpl := load(t)
	for id, r := range tmpl.Resources {
		if strings.Contains(fmt.Sprint(r.Properties), "{{resolve:") {
			t.Errorf("%s holds a secret", id)
		}
	}
	secret := map[string]bool{}
	for _, s := range config.Settings(&config.Local{}) {
		secret[s.Name] = s.Secret
	}
	for id := range functions {
		for _, name := range tmpl.Environment(id) {
			if secret[name] {
				t.Errorf("%s is given the secret %s", id, name)
			}
		}
	}
}

// TestOnlyDeliverMayReadTheSecret: no other function needs the secret.
func TestOnlyDeliverMayReadTheSecret(t *testing.T) {
	tmpl := load(t)
	for id := range functions {
		grants, err := tmpl.Grants(id)
		if err != nil {
			t.Fatal(err)
		}
		may := slices.Contains(grants, Grant{"secretsmanager:GetSecretValue", "SipherSecretArn"})
		if may != (id == "DeliverFunction") {
			t.Errorf("%s may read the secret: %t", id, may)
		}
	}
}

// TestOnlyHealthCheckMayPutEvents, on the bus that the operator has named, and only if one
// is named.
func TestOnlyHealthCheckMayPutEvents(t *testing.T) {
	tmpl := load(t)
	for id := range functions {
		grants, err := tmpl.Grants(id)
		if err != nil {
			t.Fatal(err)
		}
		may := slices.Contains(grants, Grant{"events:PutEvents", "EventBusName"})
		if may != (id == "HealthCheckFunction") {
			t.Errorf("%s may put events: %t", id, may)
		}
	}
	said := fmt.Sprint(tmpl.Resources["HealthCheckRole"].Properties["Policies"])
	if !strings.Contains(said, "{If [HasEventBus map[Action:events:PutEvents") {
		t.Errorf("the grant has no condition: %s", said)
	}
}

func TestOnlyHealthAndDiscoveryAreOpen(t *testing.T) {
	paths := mapping(mapping(load(t).Resources["Api"].Properties["Body"])["paths"])
	var open []string
	for path, methods := range paths {
		for method, m := range mapping(methods) {
			security, _ := mapping(m)["security"].([]any)
			if len(security) == 0 {
				open = append(open, method+" "+path)
				continue
			}
			for _, alternative := range security {
				if _, ok := mapping(alternative)["iam"]; !ok {
					t.Errorf("%s %s can be used without IAM: %v", method, path, alternative)
				}
			}
		}
	}
	slices.Sort(open)
	if want := []string{"get /discover", "get /healthz", "post /discover"}; !slices.Equal(open, want) {
		t.Errorf("open are %v, want %v", open, want)
	}
}

// TestRegistrationsLeaveTheAPIItsInvocations: a stranger who registers servers that hang
// keeps an invocation for as long as each is asked, so what the gateway lets in must leave
// most of them to callers. Bounds within a process are of no use here: on Lambda each
// process serves one request at a time.
func TestRegistrationsLeaveTheAPIItsInvocations(t *testing.T) {
	tmpl := load(t)
	const accountOfSmall = 10
	invocations := []int{accountOfSmall, tmpl.Default("EnqueueConcurrency").(int)}
	settings, _ := tmpl.Resources["ApiliveStage"].Properties["MethodSettings"].([]any)
	for _, s := range settings {
		if mapping(s)["ResourcePath"] != "/~1discover" {
			continue
		}
		rates, bursts := mapping(s)["ThrottlingRateLimit"].(Intrinsic).Arg.([]any), mapping(s)["ThrottlingBurstLimit"].(Intrinsic).Arg.([]any)
		for i, most := range invocations {
			rate, err := strconv.ParseFloat(fmt.Sprint(rates[i+1]), 64)
			if err != nil {
				t.Fatal(err)
			}
			if held := rate*peers.DiscoveryTimeout.Seconds() + float64(bursts[i+1].(int)); held > float64(most)/2 {
				t.Errorf("strangers hold %v of %d invocations", held, most)
			}
		}
		return
	}
	t.Error("nothing limits registrations")
}

// xray are what X-Ray's agent calls. X-Ray has no resources to limit it to.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsx-ray.html
var xray = []string{"xray:PutTraceSegments", "xray:PutTelemetryRecords"}

// TestXRayIsOffUnlessAsked, and needs no permission until then.
func TestXRayIsOffUnlessAsked(t *testing.T) {
	tmpl := load(t)
	if tmpl.Default("XRay") != "false" {
		t.Errorf("the default is %v", tmpl.Default("XRay"))
	}
	for id := range functions {
		grants, err := tmpl.Grants(id)
		if err != nil {
			t.Fatal(err)
		}
		for _, action := range xray {
			if !slices.Contains(grants, Grant{action, Everything}) {
				t.Errorf("%s may not %s", id, action)
			}
		}
		role := strings.Replace(id, "Function", "Role", 1)
		if said := fmt.Sprint(tmpl.Resources[role].Properties["Policies"]); strings.Count(said, "xray:Put") != 2 || !strings.Contains(said, "{If [HasXRay map[Action:[xray:Put") {
			t.Errorf("the grant of %s has no condition: %s", id, said)
		}
		if got := fmt.Sprint(tmpl.Resources[id].Properties["TracingConfig"]); got != "map[Mode:{If [HasXRay Active PassThrough]}]" {
			t.Errorf("%s has the tracing %s", id, got)
		}
	}
	if got := fmt.Sprint(tmpl.Resources["ApiliveStage"].Properties["TracingEnabled"]); got != "{If [HasXRay true false]}" {
		t.Errorf("the API has the tracing %s", got)
	}
}

// TestTracesGoWhereTheOperatorSays, from the functions that make spans.
func TestTracesGoWhereTheOperatorSays(t *testing.T) {
	tmpl := load(t)
	for id, makes := range map[string]bool{"EnqueueFunction": true, "DeliverFunction": true, "HealthCheckFunction": false} {
		p := tmpl.Resources[id].Properties
		endpoint := mapping(mapping(p["Environment"])["Variables"])["OTEL_EXPORTER_OTLP_ENDPOINT"]
		if (endpoint == Intrinsic{"Ref", "TracesEndpoint"}) != makes {
			t.Errorf("%s sends traces to %v", id, endpoint)
		}
		if _, has := p["Layers"]; has != makes {
			t.Errorf("%s has the layers %v", id, p["Layers"])
		}
	}
	if tmpl.Default("TracesEndpoint") != "" || tmpl.Default("CollectorLayer") != "" {
		t.Error("traces are on by default")
	}
}

func TestNothingIsGrantedBeyondTheStack(t *testing.T) {
	tmpl := load(t)
	for id := range functions {
		grants, err := tmpl.Grants(id)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range grants {
			if g.Resource == Everything && slices.Contains(xray, g.Action) {
				continue
			}
			resource, rest, _ := strings.Cut(g.Resource, "/")
			ours := tmpl.Resources[resource].Type != "" || resource == "SipherSecretArn" || resource == "EventBusName" // that operators name
			if strings.Contains(g.Action, "*") || strings.Contains(rest, "*") || !ours {
				t.Errorf("%s may %s on %s", id, g.Action, g.Resource)
			}
		}
	}
}

func TestEveryQueueRefusesRequestsWithoutTLS(t *testing.T) {
	tmpl := load(t)
	p := tmpl.Resources["QueuePolicy"].Properties
	said := fmt.Sprint(p["PolicyDocument"])
	for _, id := range queues {
		if !slices.Contains(p["Queues"].([]any), any(Intrinsic{"Ref", id})) || !strings.Contains(said, "{GetAtt "+id+".Arn}") {
			t.Errorf("%s takes requests without TLS", id)
		}
	}
	if !strings.Contains(said, "Effect:Deny") || !strings.Contains(said, "aws:SecureTransport:false") {
		t.Errorf("the policy says %s", said)
	}
}

// TestKeysAreSealedAndOpenedWithTheirIDOnly: a grant of KMS without a condition on the
// encryption context would open a sealed key under another key's id.
func TestKeysAreSealedAndOpenedWithTheirIDOnly(t *testing.T) {
	tmpl := load(t)
	found := 0
	for _, role := range []string{"EnqueueRole", "DeliverRole", "HealthCheckRole"} {
		for _, p := range tmpl.Resources[role].Properties["Policies"].([]any) {
			for _, s := range mapping(mapping(p)["PolicyDocument"])["Statement"].([]any) {
				if !strings.HasPrefix(fmt.Sprint(mapping(s)["Action"]), "kms:") {
					continue
				}
				found++
				if got := fmt.Sprint(mapping(s)["Condition"]); got != "map[ForAllValues:StringEquals:map[kms:EncryptionContextKeys:[fedpost:key]] Null:map[kms:EncryptionContext:fedpost:key:false]]" {
					t.Errorf("%s: condition %s", role, got)
				}
			}
		}
	}
	if found != 2 {
		t.Errorf("%d grants of KMS, want 2", found)
	}
}

// TestEachRoleReachesTheKeysItNeedsOnly: the API stores signing keys and shows their
// public halves, deliver opens them, and the health check has no access to them.
func TestEachRoleReachesTheKeysItNeedsOnly(t *testing.T) {
	tmpl := load(t)
	read := []string{"GetItem", "BatchGetItem", "Query"}
	write := []string{"PutItem", "BatchWriteItem", "DeleteItem"}
	for _, tt := range []struct {
		function, partition string
		reads, writes       bool
	}{
		{"EnqueueFunction", "K#a", true, true},
		{"EnqueueFunction", "KS#a", false, true},
		{"EnqueueFunction", "KI#", true, true},
		{"EnqueueFunction", "A#a", true, true},
		{"DeliverFunction", "K#a", true, false},
		{"DeliverFunction", "KS#a", true, false},
		{"DeliverFunction", "KI#", true, false},
		{"DeliverFunction", "A#a", true, true},
		{"HealthCheckFunction", "K#a", false, false},
		{"HealthCheckFunction", "KS#a", false, false},
		{"HealthCheckFunction", "KI#", false, false},
		{"HealthCheckFunction", "A#a", true, true},
	} {
		for _, kind := range []struct {
			actions []string
			may     bool
		}{{read, tt.reads}, {write, tt.writes}} {
			for _, action := range kind.actions {
				for _, partitions := range [][]string{{tt.partition}, {"A#x", tt.partition}} {
					denied, err := tmpl.Denied(tt.function, Grant{"dynamodb:" + action, "Table"}, partitions...)
					if err != nil {
						t.Fatal(err)
					}
					if denied == kind.may {
						t.Errorf("%s on %v of %s: denied %t", action, partitions, tt.function, denied)
					}
				}
			}
		}
	}
}

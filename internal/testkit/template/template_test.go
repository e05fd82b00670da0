package template

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/internal/app/config"
	"fedpost/internal/app/topology"
	"fedpost/internal/engine/dynamodb"
	"fedpost/internal/engine/queue"
	"fedpost/internal/protocol/sipher/crypto"
)

func load(t *testing.T) *Template {
	t.Helper()
	tmpl, err := Load("../../../template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

// functions by logical id, with what the code says of each.
var functions = map[string]struct {
	topology.Function
	config any
}{
	"EnqueueFunction":     {topology.Enqueue, &config.Enqueue{}},
	"DeliverFunction":     {topology.Deliver, &config.Deliver{}},
	"HealthCheckFunction": {topology.HealthCheck, &config.HealthCheck{}},
}

var queues = map[queue.Name]string{
	queue.High: "HighQueue", queue.Normal: "NormalQueue", queue.Low: "LowQueue",
	queue.Ordered: "OrderedQueue", queue.Dead: "DeadQueue", queue.DeadOrdered: "DeadOrderedQueue",
}

func TestEveryVariableThatIsSetIsReadAndEveryOneThatMustBeIsSet(t *testing.T) {
	tmpl := load(t)
	for id, f := range functions {
		set := tmpl.Environment(id)
		read := config.Names(f.config)
		for _, name := range set {
			if !slices.Contains(read, name) {
				t.Errorf("%s is given %s, which it does not read", id, name)
			}
		}
		for _, s := range config.Settings(f.config) {
			if s.Required && !slices.Contains(set, s.Name) {
				t.Errorf("%s is not given %s, which it needs", id, s.Name)
			}
		}
	}
}

// TestTheAPIShowsTheIdentityAndDeliverReadsItsSecret: the settings of an identity are
// optional, so no other test would notice a forgotten or mixed-up setting.
func TestTheAPIShowsTheIdentityAndDeliverReadsItsSecret(t *testing.T) {
	tmpl := load(t)
	for function, want := range map[string]map[string]string{
		"EnqueueFunction": {
			crypto.SettingOrigin: "SipherOrigin", crypto.SettingPublicKey: "SipherPublicKey", crypto.SettingEncryptionKey: "SipherEncryptionPublicKey",
		},
		"DeliverFunction":     {crypto.SettingOrigin: "SipherOrigin", "SIPHER_SECRET_ARN": "SipherSecretArn"},
		"HealthCheckFunction": {},
	} {
		own := mapping(mapping(tmpl.Resources[function].Properties["Environment"])["Variables"])
		got := map[string]string{}
		for name, v := range own {
			if strings.HasPrefix(name, "FEDERATION_") || strings.HasPrefix(name, "SIPHER_") || name == crypto.SettingOrigin {
				got[name] = text1(v.(Intrinsic).Arg)
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s is given %v, want %v", function, got, want)
		}
	}
}

func TestEachQueueVariableNamesTheQueueOfItsRole(t *testing.T) {
	tmpl := load(t)
	for function := range functions {
		variables := mapping(mapping(tmpl.Resources[function].Properties["Environment"])["Variables"])
		for name, id := range queues {
			variable := "QUEUE_URL_" + strings.ToUpper(strings.ReplaceAll(string(name), "-", "_"))
			if got := variables[variable]; got != (Intrinsic{"Ref", id}) {
				t.Errorf("%s: %s is %v, want the URL of %s", function, variable, got, id)
			}
		}
	}
}

func TestQueuesAreAsTheCodeExpects(t *testing.T) {
	tmpl := load(t)
	for name, id := range queues {
		p, want := tmpl.Resources[id].Properties, topology.Of(name)
		if got := p["VisibilityTimeout"]; got != int(want.Visibility.Seconds()) {
			t.Errorf("%s: visibility %v, want %s", id, got, want.Visibility)
		}
		if got := p["MessageRetentionPeriod"]; got != int(want.Retention.Seconds()) {
			t.Errorf("%s: retention %v, want %s", id, got, want.Retention)
		}
		if p["SqsManagedSseEnabled"] != true {
			t.Errorf("%s is not encrypted", id)
		}
		redrive := mapping(p["RedrivePolicy"])
		if want.MaxReceives == 0 {
			if redrive != nil {
				t.Errorf("%s is a dead-letter queue with one of its own", id)
			}
		} else if redrive["maxReceiveCount"] != want.MaxReceives || redrive["deadLetterTargetArn"] != (Intrinsic{"GetAtt", queues[name.DeadLetter()] + ".Arn"}) {
			t.Errorf("%s: redrive %v, want %d receives, then %s", id, redrive, want.MaxReceives, queues[name.DeadLetter()])
		}
	}
}

// TestQueuesAreOfTheTypeThatIsAskedFor: in each type of installation a queue is a FIFO
// queue, in high-throughput mode, or has none of a FIFO queue's attributes; its name ends
// as SQS demands, and no two queues share one.
func TestQueuesAreOfTheTypeThatIsAskedFor(t *testing.T) {
	tmpl := load(t)
	if got := tmpl.Conditions["Fifo"]; fmt.Sprint(got) != "{Equals [{Ref QueueType} fifo]}" || tmpl.Default("QueueType") != string(queue.FIFO) {
		t.Errorf("FIFO queues are made on the condition %v, by default %v", got, tmpl.Default("QueueType"))
	}
	if got := fmt.Sprint(mapping(tmpl.Parameters["QueueType"])["AllowedValues"]); got != fmt.Sprint([]queue.Type{queue.Standard, queue.FIFO}) {
		t.Errorf("the types are %v", got)
	}
	fifo := map[string]any{"FifoQueue": true, "DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId", "ContentBasedDeduplication": false}
	names := map[string]string{}
	for _, typ := range []queue.Type{queue.Standard, queue.FIFO} {
		for name, id := range queues {
			p := tmpl.Resources[id].Properties
			for attribute, value := range fifo {
				want := value
				if !typ.FIFO(name) {
					want = nil
				}
				if got := chosen(p[attribute], typ); got != want {
					t.Errorf("%s, %s: %s is %v, want %v", typ, id, attribute, got, want)
				}
			}
			queueName := text1(chosen(p["QueueName"], typ).(Intrinsic).Arg)
			if strings.HasSuffix(queueName, ".fifo") != typ.FIFO(name) {
				t.Errorf("%s: %s is called %s", typ, id, queueName)
			}
			if other, taken := names[queueName]; taken && other != id {
				t.Errorf("%s and %s are both called %s", id, other, queueName)
			}
			names[queueName] = id
		}
	}
	// Another type is another queue, and messages on the old one must not go with it.
	for _, name := range []queue.Name{queue.High, queue.Normal, queue.Low, queue.Dead} {
		if got := tmpl.Resources[queues[name]].UpdateReplacePolicy; got != "Retain" {
			t.Errorf("%s is dropped with its messages when its type changes: %q", queues[name], got)
		}
	}
	variables := mapping(mapping(tmpl.Resources["DeliverFunction"].Properties["Environment"])["Variables"])
	if variables["QUEUE_TYPE"] != (Intrinsic{"Ref", "QueueType"}) {
		t.Errorf("the functions are told the type %v", variables["QUEUE_TYPE"])
	}
}

// chosen is the value of v in an installation with queues of a type; nil for none.
func chosen(v any, typ queue.Type) any {
	if i, ok := v.(Intrinsic); ok && i.Name == "If" {
		if branches := i.Arg.([]any); branches[0] == "Fifo" && typ == queue.FIFO {
			v = branches[1]
		} else {
			v = branches[2]
		}
	}
	if v == (Intrinsic{"Ref", "AWS::NoValue"}) {
		return nil
	}
	return v
}

func TestFunctionsAreAsTheCodeExpects(t *testing.T) {
	tmpl := load(t)
	logs := map[any]string{}
	for id, f := range functions {
		r := tmpl.Resources[id]
		memory := r.Properties["MemorySize"]
		if i, ok := memory.(Intrinsic); ok && i.Name == "Ref" {
			memory = tmpl.Default(text1(i.Arg))
		}
		if r.Properties["Timeout"] != int(f.Timeout.Seconds()) || memory != f.Memory {
			t.Errorf("%s: %v s and %v MB, want %s and %d MB", id, r.Properties["Timeout"], memory, f.Timeout, f.Memory)
		}
		if r.Metadata["BuildMethod"] != "makefile" {
			t.Errorf("%s is built by %v", id, r.Metadata["BuildMethod"])
		}
		group, err := logicalID(mapping(r.Properties["LoggingConfig"])["LogGroup"])
		if err != nil || tmpl.Resources[group].Properties["RetentionInDays"] == nil || logs[group] != "" {
			t.Errorf("%s logs to %q (%v), which must be its own and have a retention", id, group, err)
		}
		logs[group] = id
		if r.Properties["Runtime"] != "provided.al2023" || fmt.Sprint(r.Properties["Architectures"]) != "[{Ref Architecture}]" {
			t.Errorf("%s: runtime %v on %v", id, r.Properties["Runtime"], r.Properties["Architectures"])
		}
		// At these levels Lambda drops no line: neither metrics nor its own report.
		logging := mapping(r.Properties["LoggingConfig"])
		if logging["LogFormat"] != "JSON" || logging["ApplicationLogLevel"] != "DEBUG" || logging["SystemLogLevel"] != "INFO" {
			t.Errorf("the logging of %s is %v", id, logging)
		}
	}
	if got := tmpl.Default("Architecture"); got != "arm64" {
		t.Errorf("the architecture is %v by default", got)
	}
}

func TestEachSourceQueueHasAnEventSourceWithItsShare(t *testing.T) {
	tmpl := load(t)
	if tmpl.Resources["DeliverFunction"].Properties["RecursiveLoop"] != "Allow" {
		t.Error("Lambda's guard against loops would drop deliveries")
	}
	sources := 0
	for name, r := range tmpl.Resources {
		if r.Type != "AWS::Lambda::EventSourceMapping" {
			continue
		}
		sources++
		p := r.Properties
		if p["FunctionName"] != (Intrinsic{"Ref", "DeliverFunction"}) {
			t.Errorf("%s is of %v", name, p["FunctionName"])
		}
		id, err := logicalID(p["EventSourceArn"])
		if err != nil {
			t.Fatal(err)
		}
		want := topology.Of(nameOf(id))
		if p["BatchSize"] != want.BatchSize || p["MaximumBatchingWindowInSeconds"] != nil {
			t.Errorf("%s: batches of %v, want %d without a window", id, p["BatchSize"], want.BatchSize)
		}
		if got := fmt.Sprint(p["FunctionResponseTypes"]); got != "[ReportBatchItemFailures]" {
			t.Errorf("%s: response types %v", id, got)
		}
		// A small account gets the least that SQS's event source takes.
		branches, _ := mapping(p["ScalingConfig"])["MaximumConcurrency"].(Intrinsic).Arg.([]any)
		if len(branches) != 3 || branches[0] != "Small" || branches[1] != 2 {
			t.Fatalf("%s: concurrency %v, want 2 where the account is small", id, branches)
		}
		if got := tmpl.Default(text1(branches[2].(Intrinsic).Arg)); got != want.Concurrency {
			t.Errorf("%s: concurrency %v by default, want %d", id, got, want.Concurrency)
		}
	}
	if sources != len(topology.Sources) {
		t.Errorf("%d event sources, want %d", sources, len(topology.Sources))
	}
}

func nameOf(id string) queue.Name {
	for name, q := range queues {
		if q == id {
			return name
		}
	}
	return ""
}

func TestTheScheduleIsTheCodes(t *testing.T) {
	tmpl := load(t)
	rule := tmpl.Resources["HealthCheckFunctionEveryMinute"].Properties
	if got := rule["ScheduleExpression"]; got != "rate(1 minute)" || topology.HealthCheckEvery != time.Minute {
		t.Errorf("schedule %v, want one every %s", got, topology.HealthCheckEvery)
	}
	if got := tmpl.Resources["HealthCheckFunctionEventInvokeConfig"].Properties["MaximumRetryAttempts"]; got != 0 {
		t.Errorf("a failed run is repeated %v times, while the next run is due", got)
	}
}

func TestTheDurationAlarmKnowsTheTimeouts(t *testing.T) {
	metrics := load(t).Resources["DurationAlarm"].Properties["Metrics"].([]any)
	expression := text1(mapping(metrics[0])["Expression"])
	for _, f := range topology.Functions {
		if want := fmt.Sprintf("FILL(%s, 0) / %d", f.Name, f.Timeout.Milliseconds()); !strings.Contains(expression, want) {
			t.Errorf("%q does not say %q", expression, want)
		}
	}
}

func TestDataOutlivesTheStack(t *testing.T) {
	tmpl := load(t)
	for _, id := range []string{"Table", "SealingKey"} {
		if got := tmpl.Resources[id].DeletionPolicy; got != "Retain" {
			t.Errorf("%s: deletion policy %q", id, got)
		}
	}
	table := tmpl.Resources["Table"].Properties
	if mapping(table["PointInTimeRecoverySpecification"])["PointInTimeRecoveryEnabled"] != true || mapping(table["SSESpecification"])["SSEEnabled"] != true {
		t.Error("the table is not encrypted or cannot be restored")
	}
}

func TestTheTableHasTheKeysOfTheEngine(t *testing.T) {
	p := load(t).Resources["Table"].Properties
	key := func(hash, sort string) string {
		return fmt.Sprint([]any{Map{"AttributeName": hash, "KeyType": "HASH"}, Map{"AttributeName": sort, "KeyType": "RANGE"}})
	}
	if got := fmt.Sprint(p["KeySchema"]); got != key(dynamodb.PK, dynamodb.SK) {
		t.Errorf("key %s", got)
	}
	indexes := p["GlobalSecondaryIndexes"].([]any)
	index := mapping(indexes[0])
	if len(indexes) != 1 || index["IndexName"] != dynamodb.DueIndex || fmt.Sprint(index["KeySchema"]) != key(dynamodb.DueShard, dynamodb.DueAt) ||
		mapping(index["Projection"])["ProjectionType"] != "ALL" {
		t.Errorf("indexes %v", indexes)
	}
	ttl := mapping(p["TimeToLiveSpecification"])
	if ttl["AttributeName"] != dynamodb.Expires || ttl["Enabled"] != true {
		t.Errorf("time to live %v", ttl)
	}
	types := map[any]any{}
	for _, a := range p["AttributeDefinitions"].([]any) {
		types[mapping(a)["AttributeName"]] = mapping(a)["AttributeType"]
	}
	want := map[any]any{dynamodb.PK: "S", dynamodb.SK: "S", dynamodb.DueShard: "S", dynamodb.DueAt: "N"}
	if !maps.Equal(types, want) {
		t.Errorf("attributes %v, want %v", types, want)
	}
}

// TestTheDashboardShowsMetricsThatThereAre: AWS refuses a dashboard with invalid JSON
// only at the end of a deployment.
func TestTheDashboardShowsMetricsThatThereAre(t *testing.T) {
	tmpl := load(t)
	body := text1(tmpl.Resources["Dashboard"].Properties["DashboardBody"].(Intrinsic).Arg)
	var d struct {
		Widgets []struct {
			Properties struct{ Metrics [][]any }
		}
	}
	if err := json.Unmarshal([]byte(body), &d); err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\$\{(\w+)[.}]`).FindAllStringSubmatch(body, -1) {
		if tmpl.Resources[m[1]].Type == "" {
			t.Errorf("the dashboard refers to %s, which is not there", m[1])
		}
	}
	if len(d.Widgets) < 6 || len(d.Widgets[0].Properties.Metrics) < 7 {
		t.Errorf("%d widgets", len(d.Widgets))
	}
}

func TestEveryReferenceHasATarget(t *testing.T) {
	tmpl := load(t)
	var walk func(where string, v any)
	walk = func(where string, v any) {
		switch v := v.(type) {
		case Map:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				walk(where+"."+k, v[k])
			}
		case []any:
			for _, e := range v {
				walk(where, e)
			}
		case Intrinsic:
			if v.Name == "Ref" || v.Name == "GetAtt" {
				id, _, _ := strings.Cut(text1(v.Arg), ".")
				if tmpl.Resources[id].Type == "" && tmpl.Parameters[id] == nil && !strings.HasPrefix(id, "AWS::") {
					t.Errorf("%s refers to %s, which is not there", where, id)
				}
			}
			walk(where, v.Arg)
		}
	}
	for id, r := range tmpl.Resources {
		walk(id, r.Properties)
	}
	walk("Outputs", tmpl.Outputs)
}

// TestTheAPIHasOneStage: SAM makes a second stage, called Stage, for an API without a
// version.
func TestTheAPIHasOneStage(t *testing.T) {
	for id, r := range load(t).Resources {
		if r.Type == "AWS::ApiGateway::Stage" && r.Properties["StageName"] != "live" {
			t.Errorf("there is a stage %v (%s)", r.Properties["StageName"], id)
		}
	}
}

// TestAStackAdoptsATableAndAKey: if a table or a key of an earlier stack is adopted, every
// reference and every grant names the adopted one.
func TestAStackAdoptsATableAndAKey(t *testing.T) {
	tmpl := load(t)
	for id, condition := range map[string]string{"Table": "NewTable", "SealingKey": "NewKey"} {
		if got := tmpl.Resources[id].Condition; got != condition {
			t.Errorf("%s is made on condition %q, want %s", id, got, condition)
		}
		existing := "Existing" + strings.TrimPrefix(condition, "New")
		if tmpl.Default(existing) != "" {
			t.Errorf("%s is %v by default", existing, tmpl.Default(existing))
		}
		var walk func(where string, v any)
		walk = func(where string, v any) {
			switch v := v.(type) {
			case Map:
				for k, e := range v {
					walk(where+"."+k, e)
				}
			case []any:
				for _, e := range v {
					walk(where, e)
				}
			case Intrinsic:
				if branches, _ := v.Arg.([]any); v.Name == "If" && len(branches) == 3 && branches[0] == condition {
					if !strings.Contains(fmt.Sprint(branches[2]), existing) {
						t.Errorf("%s does not use %s: %v", where, existing, branches[2])
					}
					return
				}
				if name, _, _ := strings.Cut(text1(v.Arg), "."); name == id || strings.Contains(text1(v.Arg), "${"+id+".") {
					t.Errorf("%s uses %s even if the stack adopts one", where, id)
				}
				walk(where, v.Arg)
			}
		}
		for name, r := range tmpl.Resources {
			walk(name, r.Properties)
		}
		walk("Outputs", tmpl.Outputs)
	}
}

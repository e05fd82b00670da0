package template

import (
	"math"
	"strings"
	"testing"
)

// nothing is a period in which nothing was recorded.
var nothing = math.NaN()

func TestMetricMath(t *testing.T) {
	metrics := map[string]float64{"a": 3, "b": 4, "none": nothing}
	value := func(id string) (float64, bool) { v, ok := metrics[id]; return v, ok }
	for expression, want := range map[string]float64{
		"1 + 2 * (a - 1) / 4":                     2,
		"FILL(none, 0) + FILL(a, 7)":              3,
		"a + none":                                nothing,
		"MAX([100 * FILL(a, 0) / 3, b])":          100,
		"MAX([a, none])":                          nothing,
		"SUM([a, b, 1])":                          8,
		"IF(b > a, 1, 0) + IF(b < a, 10, 20)":     21,
		"IF(FILL(none, 0) > FILL(none, 0), 1, 0)": 0,
		"IF(none > 1, 1, 0)":                      nothing,
	} {
		got, err := evaluate(expression, value)
		if err != nil || got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%s is %v, %v, want %v", expression, got, err, want)
		}
	}
	for _, broken := range []string{"a +", "c", "STDDEV(a)", "FILL(a)", "a % b", `"a"`, "a.b(1)"} {
		if got, err := evaluate(broken, value); err == nil {
			t.Errorf("%s is %v", broken, got)
		}
	}
}

// TestAlarmsAreRaised gives each alarm the series with which it has to go off, and neighbours
// of them with which it must not.
func TestAlarmsAreRaised(t *testing.T) {
	const (
		dead, deadOrdered = "AWS/SQS ApproximateNumberOfMessagesVisible QueueName=DeadQueue", "AWS/SQS ApproximateNumberOfMessagesVisible QueueName=DeadOrderedQueue"
		high, ordered     = "AWS/SQS ApproximateAgeOfOldestMessage QueueName=HighQueue", "AWS/SQS ApproximateAgeOfOldestMessage QueueName=OrderedQueue"
		errors, throttles = "AWS/Lambda Errors FunctionName=DeliverFunction", "AWS/Lambda Throttles FunctionName=EnqueueFunction"
		duration          = "AWS/Lambda Duration FunctionName=HealthCheckFunction"
		runs              = "AWS/Lambda Invocations FunctionName=HealthCheckFunction"
		calls             = "AWS/Lambda Invocations FunctionName=EnqueueFunction"
		answers           = "AWS/ApiGateway 5XXError ApiName=AWS::StackName"
		faults, cameBack  = "AWS::StackName Faults", "AWS::StackName CameBack"
		exhausted         = "AWS::StackName Exhausted"
		webhooks          = "AWS::StackName WebhooksFailing"
		unrecorded        = "AWS::StackName Unrecorded"
		writes, due       = "AWS/DynamoDB WriteThrottleEvents TableName=Table", "AWS/DynamoDB WriteThrottleEvents GlobalSecondaryIndexName=due TableName=Table"
	)
	alarms := load(t).Alarms()
	tested := map[string]bool{}
	for _, c := range []struct {
		alarm string
		rings bool
		r     Recorded
	}{
		{"dead-letters", true, Recorded{dead: {1}}},
		{"dead-letters", true, Recorded{deadOrdered: {2}, dead: {nothing}}},
		{"dead-letters", false, Recorded{dead: {0, 0, 0}, deadOrdered: {nothing, 0, nothing}}},
		{"oldest-message", true, Recorded{high: {10, 1900, 2200}, ordered: {nothing}}},
		{"oldest-message", true, Recorded{ordered: {3600, 3900}}},
		{"oldest-message", false, Recorded{high: {1900, 10, 1900, 1700}}},
		{"errors", true, Recorded{errors: {1, 1}}},
		{"errors", false, Recorded{errors: {1, nothing, 1, 0}}},
		{"throttles", true, Recorded{throttles: {5, 1, 1}}},
		{"throttles", false, Recorded{throttles: {5, 1, 0, 1, 1}}},
		{"api-errors", true, Recorded{faults: {1, 3}, calls: {10, 10}, answers: {1, 3}}},
		{"api-errors", true, Recorded{unrecorded: {5, 5}, calls: {5, 5}}},
		{"api-errors", true, Recorded{answers: {2, 1}}}, // the API may not call the function
		// A stranger names broken servers: 502, and no fault of ours.
		{"api-errors", false, Recorded{answers: {3000, 3000, 3000}, calls: {3000, 3000, 3000}}},
		{"api-errors", false, Recorded{faults: {1, nothing, 1}, calls: {10, 10, 10}}},
		{"came-back", true, Recorded{cameBack: {1, nothing, 1}}},
		{"came-back", false, Recorded{cameBack: {7, nothing, nothing, 1}}},
		{"table-throttled", true, Recorded{writes: {3, 2}}},
		{"table-throttled", true, Recorded{due: {3, nothing, 1}}},
		{"table-throttled", false, Recorded{writes: {3, 0, 0, 2}}},
		{"duration", true, Recorded{duration: {53000, 54900}}},
		{"duration", false, Recorded{duration: {53000, 20000, 54900}}},
		{"healthcheck-missing", true, Recorded{runs: {5, 5, nothing, nothing}, calls: {1, 1, 1, 1}}},
		{"healthcheck-missing", true, Recorded{calls: {1, 1}}}, // never ran
		{"healthcheck-missing", false, Recorded{runs: {5, nothing, 5, nothing, 5}}},
		{"exhausted-servers", true, Recorded{exhausted: {1}}},
		{"exhausted-servers", false, Recorded{exhausted: {nothing, nothing}}},
		{"webhooks", true, Recorded{webhooks: {nothing, 2}}},
		{"webhooks", false, Recorded{webhooks: {nothing, nothing}}},
	} {
		a, ok := alarms[c.alarm]
		if !ok {
			t.Fatalf("there is no alarm %s", c.alarm)
		}
		metrics, err := a.Metrics()
		if err != nil {
			t.Fatal(err)
		}
		rings, err := a.Rings(c.r)
		if err != nil {
			t.Error(err)
		}
		if rings != c.rings {
			t.Errorf("%s rings: %t for %v (it reads %s)", c.alarm, rings, c.r, strings.Join(metrics, ", "))
		}
		tested[c.alarm] = tested[c.alarm] || c.rings
	}
	for name := range alarms {
		if !tested[name] {
			t.Errorf("the alarm %s is brought about by no series", name)
		}
	}
}

func TestAnAlarmThatIsNotUnderstoodIsAnError(t *testing.T) {
	for _, p := range []Map{
		{"MetricName": "Errors", "Namespace": "AWS/Lambda", "ComparisonOperator": "LessThanLowerThreshold", "EvaluationPeriods": 1, "TreatMissingData": "breaching"},
		{"MetricName": "Errors", "Namespace": "AWS/Lambda", "ComparisonOperator": "GreaterThanThreshold", "EvaluationPeriods": 1, "TreatMissingData": "ignore"},
		{"MetricName": "Errors", "ComparisonOperator": "GreaterThanThreshold", "EvaluationPeriods": 1, "TreatMissingData": "breaching"},
	} {
		if rings, err := (Alarm{Name: "x", properties: p}).Rings(Recorded{"m": {1}}); err == nil {
			t.Errorf("%v: rings %t", p, rings)
		}
	}
}

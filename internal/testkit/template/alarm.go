package template

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Recorded is what CloudWatch has recorded: for each metric the statistic of each
// period, NaN where nothing was recorded. A metric is named by namespace, name and
// dimensions, with logical ids for names that CloudFormation gives:
// "AWS/Lambda Errors FunctionName=DeliverFunction", "AWS::StackName CameBack". All
// series begin at the same time; one that is missing or ends early has no values there.
type Recorded map[string][]float64

// Alarm is an alarm of the template.
type Alarm struct {
	// Name is the part of the alarm's name behind the stack's name.
	Name string

	properties Map
}

// Alarms returns the template's alarms by name.
func (t *Template) Alarms() map[string]Alarm {
	all := map[string]Alarm{}
	for _, r := range t.Resources {
		if r.Type != "AWS::CloudWatch::Alarm" {
			continue
		}
		i, _ := r.Properties["AlarmName"].(Intrinsic)
		name := strings.TrimPrefix(text1(i.Arg), "${AWS::StackName}-")
		all[name] = Alarm{Name: name, properties: r.Properties}
	}
	return all
}

// Metrics names the metrics that the alarm reads, sorted.
func (a Alarm) Metrics() ([]string, error) {
	inputs, _, err := a.inputs()
	return slices.Sorted(maps.Values(inputs)), err
}

// inputs returns the alarm's metrics by id, and its expression: the id of the only
// metric if it has none.
func (a Alarm) inputs() (map[string]string, string, error) {
	inputs := map[string]string{}
	if a.properties["MetricName"] != nil {
		name, err := metricName(a.properties)
		inputs["metric"] = name
		return inputs, "metric", err
	}
	expression := ""
	for _, m := range list(a.properties["Metrics"]) {
		q := mapping(m)
		if e := text1(q["Expression"]); e != "" {
			expression = e
			continue
		}
		name, err := metricName(mapping(mapping(q["MetricStat"])["Metric"]))
		if err != nil {
			return nil, "", fmt.Errorf("alarm %s: %w", a.Name, err)
		}
		inputs[text1(q["Id"])] = name
	}
	return inputs, expression, nil
}

func metricName(m Map) (string, error) {
	parts := []string{name(m["Namespace"]), text1(m["MetricName"])}
	var dimensions []string
	for _, d := range list(m["Dimensions"]) {
		if d := mapping(d); d != nil {
			dimensions = append(dimensions, text1(d["Name"])+"="+name(d["Value"]))
		}
	}
	slices.Sort(dimensions)
	parts = append(parts, dimensions...)
	if slices.Contains(parts, "") {
		return "", fmt.Errorf("metric %v is not named in a way that is understood here", m)
	}
	return strings.Join(parts, " "), nil
}

// name is a string of the template or what a reference refers to.
func name(v any) string {
	if s := text1(v); s != "" {
		return s
	}
	id, err := logicalID(v)
	if err != nil {
		return ""
	}
	return id
}

// Rings reports whether the alarm goes off at any time of what was recorded: whether M
// of N neighbouring periods are beyond the threshold.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-evaluation.html
func (a Alarm) Rings(r Recorded) (bool, error) {
	inputs, text, err := a.inputs()
	if err != nil {
		return false, err
	}
	periods := 0
	for _, series := range r {
		periods = max(periods, len(series))
	}
	n, _ := a.properties["EvaluationPeriods"].(int)
	m, ok := a.properties["DatapointsToAlarm"].(int)
	if !ok {
		m = n
	}
	threshold, _ := a.properties["Threshold"].(int)
	compare, ok := comparisons[text1(a.properties["ComparisonOperator"])]
	missing := text1(a.properties["TreatMissingData"])
	if !ok || n < 1 || missing != "breaching" && missing != "notBreaching" {
		return false, fmt.Errorf("alarm %s has a condition that is not understood here", a.Name)
	}
	var beyond []bool
	for at := range periods {
		v, err := evaluate(text, func(id string) (float64, bool) {
			metric, ok := inputs[id]
			if series := r[metric]; at < len(series) {
				return series[at], ok
			}
			return math.NaN(), ok
		})
		if err != nil {
			return false, fmt.Errorf("alarm %s: %w", a.Name, err)
		}
		if math.IsNaN(v) {
			beyond = append(beyond, missing == "breaching")
		} else {
			beyond = append(beyond, compare(v, float64(threshold)))
		}
		last := beyond[max(0, len(beyond)-n):]
		count := 0
		for _, b := range last {
			if b {
				count++
			}
		}
		if count >= m {
			return true, nil
		}
	}
	return false, nil
}

var comparisons = map[string]func(v, threshold float64) bool{
	"GreaterThanThreshold":          func(v, t float64) bool { return v > t },
	"GreaterThanOrEqualToThreshold": func(v, t float64) bool { return v >= t },
	"LessThanThreshold":             func(v, t float64) bool { return v < t },
	"LessThanOrEqualToThreshold":    func(v, t float64) bool { return v <= t },
}

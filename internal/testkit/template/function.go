package template

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Environment returns the names of the variables that the template sets for a
// function.
func (t *Template) Environment(function string) []string {
	return slices.Sorted(maps.Keys(mapping(mapping(t.Resources[function].Properties["Environment"])["Variables"])))
}

// Grant is one action on one resource that a role allows.
type Grant struct {
	Action string // "sqs:SendMessage"
	// Resource is the logical id of the resource, with the rest of the ARN if
	// it is more than the resource itself: "Table", "Table/index/due".
	Resource string
}

// Everything is the resource of actions of services that know no resources.
const Everything = "*"

// Grants returns what a function's role allows, sorted, without regard to what
// Denied takes away again.
func (t *Template) Grants(function string) ([]Grant, error) {
	statements, err := t.statements(function, "Allow")
	if err != nil {
		return nil, err
	}
	var grants []Grant
	for _, s := range statements {
		g, err := statement(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", function, err)
		}
		grants = append(grants, g...)
	}
	slices.SortFunc(grants, func(a, b Grant) int {
		return strings.Compare(a.Action+" "+a.Resource, b.Action+" "+b.Resource)
	})
	return slices.Compact(grants), nil
}

// statements returns the statements of a function's role with an effect, "Allow" or
// "Deny". A statement under a condition of the template counts as if the condition held.
func (t *Template) statements(function, effect string) ([]Map, error) {
	role, err := logicalID(t.Resources[function].Properties["Role"])
	if err != nil {
		return nil, fmt.Errorf("%s has no role of this template: %w", function, err)
	}
	policies, _ := t.Resources[role].Properties["Policies"].([]any)
	var all []Map
	for _, p := range policies {
		statements, _ := mapping(mapping(p)["PolicyDocument"])["Statement"].([]any)
		for _, s := range statements {
			if i, ok := s.(Intrinsic); ok && i.Name == "If" {
				s = i.Arg.([]any)[1]
			}
			if mapping(s)["Effect"] == effect {
				all = append(all, mapping(s))
			}
		}
	}
	return all, nil
}

// Denied reports whether a function's role refuses an action on a resource,
// "Table", because of one of the partition keys that the request names.
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/specifying-conditions.html
func (t *Template) Denied(function string, g Grant, partitions ...string) (bool, error) {
	statements, err := t.statements(function, "Deny")
	if err != nil {
		return false, err
	}
	for _, s := range statements {
		denied, err := statement(s)
		if err != nil {
			return false, fmt.Errorf("%s: %w", function, err)
		}
		if !slices.Contains(denied, g) {
			continue
		}
		patterns := list(mapping(mapping(s["Condition"])["ForAnyValue:StringLike"])["dynamodb:LeadingKeys"])
		for _, p := range patterns {
			prefix, ok := strings.CutSuffix(text1(p), "*")
			if !ok || len(mapping(s["Condition"])) != 1 {
				return false, fmt.Errorf("%s: statement %v has a condition that is not understood here", function, s["Sid"])
			}
			if slices.ContainsFunc(partitions, func(k string) bool { return strings.HasPrefix(k, prefix) }) {
				return true, nil
			}
		}
	}
	return false, nil
}

func statement(s Map) ([]Grant, error) {
	var grants []Grant
	for _, a := range list(s["Action"]) {
		for _, r := range list(s["Resource"]) {
			if r == Everything {
				grants = append(grants, Grant{Action: text1(a), Resource: Everything})
				continue
			}
			resource, err := logicalID(r)
			if err != nil {
				return nil, fmt.Errorf("statement %v: %w", s["Sid"], err)
			}
			grants = append(grants, Grant{Action: text1(a), Resource: resource})
		}
	}
	return grants, nil
}

func list(v any) []any {
	if l, ok := v.([]any); ok {
		return l
	}
	return []any{v}
}

// arnOf matches a resource's ARN within a Sub.
var arnOf = regexp.MustCompile(`^\$\{(\w+)\.Arn\}(.*)$`)

// namedByOperators matches the ARN of one resource of this account and region whose name is
// a parameter.
var namedByOperators = regexp.MustCompile(`^arn:\$\{AWS::Partition\}:[a-z]+:\$\{AWS::Region\}:\$\{AWS::AccountId\}:[a-z-]+/\$\{(\w+)\}$`)

// logicalID returns what a reference refers to.
func logicalID(v any) (string, error) {
	i, ok := v.(Intrinsic)
	arg := text1(i.Arg)
	switch {
	case ok && i.Name == "Ref":
		return arg, nil
	case ok && i.Name == "GetAtt":
		id, _, _ := strings.Cut(arg, ".")
		return id, nil
	case ok && i.Name == "If":
		// The stack's own resource stands first, one that it adopts second.
		if branches, _ := i.Arg.([]any); len(branches) == 3 {
			return logicalID(branches[1])
		}
	case ok && i.Name == "Sub":
		if m := arnOf.FindStringSubmatch(arg); m != nil {
			return m[1] + m[2], nil
		}
		if m := namedByOperators.FindStringSubmatch(arg); m != nil {
			return m[1], nil
		}
	}
	return "", fmt.Errorf("%v is not the ARN of a resource of this template", v)
}

// Needed returns the actions that IAM asks for when a function calls an
// operation of the SDK, of which one at least must be granted: batches of SQS
// are authorised as their single calls, a transaction as what is in it.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonsqs.html
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis-iam.html
func Needed(service, operation string) []string {
	prefix := strings.ToLower(service) + ":"
	switch operation {
	case "TransactWriteItems":
		return []string{prefix + "PutItem", prefix + "DeleteItem", prefix + "UpdateItem", prefix + "ConditionCheckItem"}
	case "TransactGetItems":
		return []string{prefix + "GetItem"}
	case "SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch":
		return []string{prefix + strings.TrimSuffix(operation, "Batch")}
	}
	return []string{prefix + operation}
}

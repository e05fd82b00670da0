package dynamodb

import (
	"strings"

	"fedpost/internal/engine/table"
)

// expression is a condition as DynamoDB takes it.
type expression struct {
	text   *string // nil: no condition
	values attributes
}

// condition translates c. A comparison with an attribute that an item lacks is
// false, as the table port requires.
func condition(c table.Cond) expression {
	if c.Always() {
		return expression{}
	}
	var any []string
	values := attributes{}
	if c.Absent {
		any = append(any, "attribute_not_exists("+PK+")")
	}
	if !c.ExpiredBy.IsZero() {
		any = append(any, Expires+" <= :now")
		values[":now"] = number(floorSeconds(c.ExpiredBy))
	}
	if c.Fence != "" {
		any = append(any, Fence+" = :fence")
		values[":fence"] = str(c.Fence)
	}
	text := strings.Join(any, " OR ")
	if len(values) == 0 {
		values = nil
	}
	return expression{text: &text, values: values}
}

package sqlite

import (
	"database/sql/driver"
	"fmt"

	"fedpost/internal/engine/queue"
)

// bound returns the arguments of a statement as the driver takes them.
func bound(args []any) ([]driver.NamedValue, error) {
	values := make([]driver.NamedValue, len(args))
	for i, a := range args {
		switch v := a.(type) {
		case nil, int64, string, []byte:
		case int:
			a = int64(v)
		case bool:
			a = int64(0)
			if v {
				a = int64(1)
			}
		default:
			return nil, fmt.Errorf("argument %d is of type %T", i+1, a)
		}
		values[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	return values, nil
}

func assign(dest []any, columns []driver.Value) error {
	if len(dest) != len(columns) {
		return fmt.Errorf("a row has %d columns, read into %d variables", len(columns), len(dest))
	}
	for i, column := range columns {
		ok := false
		switch d := dest[i].(type) {
		case *int64:
			*d, ok = column.(int64)
		case *int:
			var n int64
			n, ok = column.(int64)
			*d = int(n)
		case *string:
			*d, ok = column.(string)
		case *queue.Name:
			var s string
			s, ok = column.(string)
			*d = queue.Name(s)
		case *[]byte:
			*d, ok = column.([]byte)
		case **int64:
			if *d, ok = nil, column == nil; !ok {
				var n int64
				n, ok = column.(int64)
				*d = &n
			}
		}
		if !ok {
			return fmt.Errorf("column %d of a row is of type %T, read into %T", i+1, column, dest[i])
		}
	}
	return nil
}

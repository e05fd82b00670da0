package simulation

import (
	"container/list"
	"reflect"
	"strings"
)

// entries counts what is in all maps, lists, slices and channels that can be reached from a
// process's functions, by the field that has them. No list of fields is needed for that, so a map
// that somebody adds is counted, too. Only what nothing but a stack or a closure has is missed.
type entries struct {
	counts map[string]int
	seen   map[reached]bool
}

type reached struct {
	at uintptr
	as reflect.Type
}

// entriesOf may be called only while all other goroutines of the story are held.
func entriesOf(roots ...any) map[string]int {
	e := entries{counts: map[string]int{}, seen: map[reached]bool{}}
	for _, root := range roots {
		e.walk("", reflect.ValueOf(root))
	}
	return e.counts
}

// walk counts what is reached from v, which is in a field.
func (e entries) walk(field string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if r := (reached{v.Pointer(), v.Type()}); !v.IsNil() && !e.seen[r] {
			e.seen[r] = true
			e.walk(field, v.Elem())
		}
	case reflect.Interface:
		e.walk(field, v.Elem())
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[list.List]() {
			e.list(field, v)
			return
		}
		for _, f := range fieldsOf(v.Type()) {
			e.walk(f.name, v.Field(f.index))
		}
	case reflect.Map:
		e.counts[field] += v.Len()
		if holds(v.Type().Elem()) {
			for all := v.MapRange(); all.Next(); {
				e.walk(field, all.Value())
			}
		}
	case reflect.Slice:
		if holds(v.Type()) {
			e.counts[field] += v.Len()
			e.elements(field, v)
		}
	case reflect.Array:
		e.elements(field, v)
	case reflect.Chan:
		e.counts[field] += v.Len()
	}
}

func (e entries) elements(field string, v reflect.Value) {
	if holds(v.Type().Elem()) {
		for i := range v.Len() {
			e.walk(field, v.Index(i))
		}
	}
}

func (e entries) list(field string, l reflect.Value) {
	el := l.FieldByName("root").FieldByName("next")
	for range l.FieldByName("len").Int() {
		e.counts[field]++
		e.walk(field, el.Elem().FieldByName("Value"))
		el = el.Elem().FieldByName("next")
	}
}

// holds reports whether a value of a type may have entries that count. Bytes do not.
func holds(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Slice:
		return t.Elem().Kind() != reflect.Uint8
	case reflect.Array:
		return holds(t.Elem())
	case reflect.Struct:
		return t == reflect.TypeFor[list.List]() || len(fieldsOf(t)) > 0
	case reflect.Pointer:
		return t.Elem().Kind() != reflect.Struct || ours(t.Elem())
	case reflect.Interface, reflect.Map, reflect.Chan:
		return true
	}
	return false
}

// ours reports whether the fields of a struct are looked at: other packages keep nothing for
// fedpost, but for a few.
func ours(t reflect.Type) bool {
	switch path := t.PkgPath(); path {
	case "", "context", "golang.org/x/sync/singleflight":
		return true
	case "container/list":
		return t == reflect.TypeFor[list.List]()
	default:
		return strings.HasPrefix(path, "fedpost/") && !strings.HasPrefix(path, "fedpost/internal/testkit/")
	}
}

type namedField struct {
	name  string
	index int
}

// structs has the fields of each struct that may have entries: to find them took most of the time.
var structs = map[reflect.Type][]namedField{}

func fieldsOf(t reflect.Type) []namedField {
	fields, known := structs[t]
	if known || !ours(t) {
		return fields
	}
	name := t.String()
	if t.Name() == "" {
		name = "struct"
	}
	for i := range t.NumField() {
		if f := t.Field(i); holds(f.Type) {
			fields = append(fields, namedField{name + "." + f.Name, i})
		}
	}
	structs[t] = fields
	return fields
}

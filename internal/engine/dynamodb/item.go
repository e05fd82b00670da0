package dynamodb

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"fedpost/internal/engine/table"
)

type attributes = map[string]types.AttributeValue

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func encodeKey(k table.Key) attributes { return attributes{PK: str(k.PK), SK: str(k.SK)} }

// encode leaves out what is empty: it costs space, and an index key must not be
// empty.
func encode(it table.Item) attributes {
	a := encodeKey(it.Key)
	if it.Fence != "" {
		a[Fence] = str(it.Fence)
	}
	if len(it.Data) > 0 {
		a[Data] = &types.AttributeValueMemberB{Value: it.Data}
	}
	if !it.Expires.IsZero() {
		a[Expires] = number(ceilSeconds(it.Expires))
	}
	if it.Due.Shard != "" {
		a[DueShard], a[DueAt] = str(it.Due.Shard), number(it.Due.At.UnixMilli())
	}
	return a
}

func decode(a attributes) (table.Item, error) {
	d := decoder{attributes: a}
	it := table.Item{
		Key:   table.Key{PK: d.str(PK), SK: d.str(SK)},
		Fence: d.str(Fence),
		Data:  d.bytes(Data),
	}
	if n, ok := d.number(Expires); ok {
		it.Expires = time.Unix(n, 0)
	}
	if it.Due.Shard = d.str(DueShard); it.Due.Shard != "" {
		if n, ok := d.number(DueAt); ok {
			it.Due.At = time.UnixMilli(n)
		}
	}
	if d.err != nil {
		return table.Item{}, fmt.Errorf("item %s %s: %w", it.PK, it.SK, d.err)
	}
	return it, nil
}

func decodeAll(list []attributes) ([]table.Item, error) {
	var items []table.Item
	for _, a := range list {
		it, err := decode(a)
		if err != nil {
			return nil, err
		}
		items = append(items, it)
	}
	return items, nil
}

// decoder reads attributes and keeps the first error.
type decoder struct {
	attributes
	err error
}

func (d *decoder) str(name string) string {
	if v, ok := attribute[*types.AttributeValueMemberS](d, name); ok {
		return v.Value
	}
	return ""
}

func (d *decoder) bytes(name string) []byte {
	if v, ok := attribute[*types.AttributeValueMemberB](d, name); ok {
		return v.Value
	}
	return nil
}

func (d *decoder) number(name string) (int64, bool) {
	v, ok := attribute[*types.AttributeValueMemberN](d, name)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(v.Value, 10, 64)
	if err != nil {
		d.err = fmt.Errorf("attribute %s: %w", name, err)
	}
	return n, err == nil
}

// attribute returns an attribute of a type, and false if there is none.
func attribute[T types.AttributeValue](d *decoder, name string) (v T, ok bool) {
	a, there := d.attributes[name]
	if v, ok = a.(T); there && !ok && d.err == nil {
		d.err = fmt.Errorf("attribute %s is a %T", name, a)
	}
	return v, ok
}

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

package functions

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// row is a line of the log, or of a result: values by the names that Logs Insights
// gives to fields. Fields of nested objects are named with dots.
type row map[string]any

// insights runs a query of CloudWatch Logs Insights over lines of JSON. It knows the
// commands fields, filter, stats, sort, limit and parse, as far as docs/operations.md
// uses them, and refuses everything else. It also refuses a field that no line has:
// Logs Insights shows an empty column for it.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax.html
func insights(query string, lines []string) ([]row, error) {
	var rows []row
	for _, line := range lines {
		var v map[string]any
		if json.Unmarshal([]byte(line), &v) != nil {
			continue // Logs Insights finds no fields in it
		}
		r := row{"@message": line, "@timestamp": cmp.Or(v["timestamp"], v["time"])}
		flatten(r, "", v)
		rows = append(rows, r)
	}
	var text strings.Builder
	for line := range strings.Lines(query) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			text.WriteString(line)
		}
	}
	for command := range strings.SplitSeq(text.String(), "|") {
		p := &insightsParser{tokens: tokens.FindAllString(command, -1), known: map[string]bool{}}
		for _, r := range rows {
			for name := range r {
				p.known[name] = true
			}
		}
		var err error
		if rows, err = p.run(rows); err != nil {
			return nil, fmt.Errorf("%s: %w", strings.TrimSpace(command), err)
		}
	}
	return rows, nil
}

func flatten(r row, prefix string, v map[string]any) {
	for name, e := range v {
		if inner, ok := e.(map[string]any); ok {
			flatten(r, prefix+name+".", inner)
			continue
		}
		r[prefix+name] = e
	}
}

var tokens = regexp.MustCompile(`"[^"]*"|/[^/]+/|[@\w.]+|!=|<=|>=|[=<>(),*\[\]]`)

type insightsParser struct {
	tokens []string
	known  map[string]bool
}

func (p *insightsParser) peek() string {
	if len(p.tokens) == 0 {
		return ""
	}
	return p.tokens[0]
}

func (p *insightsParser) next() string {
	t := p.peek()
	if t != "" {
		p.tokens = p.tokens[1:]
	}
	return t
}

func (p *insightsParser) accept(t string) bool {
	if p.peek() != t {
		return false
	}
	p.next()
	return true
}

func (p *insightsParser) expect(t string) error {
	if got := p.next(); got != t {
		return fmt.Errorf("%q where %q is expected", got, t)
	}
	return nil
}

func (p *insightsParser) field() (string, error) {
	name := p.next()
	if !p.known[name] {
		return "", fmt.Errorf("no line has a field %q", name)
	}
	return name, nil
}

func (p *insightsParser) run(rows []row) (out []row, err error) {
	switch command := p.next(); command {
	case "fields":
		out, err = p.fields(rows)
	case "filter":
		var keep func(row) bool
		if keep, err = p.or(); err == nil {
			for _, r := range rows {
				if keep(r) {
					out = append(out, r)
				}
			}
		}
	case "stats":
		out, err = p.stats(rows)
	case "sort":
		out, err = p.sort(rows)
	case "limit":
		n, numberErr := strconv.Atoi(p.next())
		out, err = rows[:min(n, len(rows))], numberErr
	case "parse":
		out, err = p.parse(rows)
	default:
		err = fmt.Errorf("the command %q is not known here", command)
	}
	if err == nil && p.peek() != "" {
		err = fmt.Errorf("%q is left over", p.peek())
	}
	return out, err
}

func (p *insightsParser) fields(rows []row) ([]row, error) {
	var names []string
	for {
		name, err := p.field()
		if err != nil {
			return nil, err
		}
		if names = append(names, name); !p.accept(",") {
			break
		}
	}
	var out []row
	for _, r := range rows {
		chosen := row{}
		for _, n := range names {
			if v, ok := r[n]; ok {
				chosen[n] = v
			}
		}
		out = append(out, chosen)
	}
	return out, nil
}

func (p *insightsParser) or() (func(row) bool, error) {
	left, err := p.and()
	for err == nil && p.accept("or") {
		first := left
		var second func(row) bool
		second, err = p.and()
		left = func(r row) bool { return first(r) || second(r) }
	}
	return left, err
}

func (p *insightsParser) and() (func(row) bool, error) {
	left, err := p.term()
	for err == nil && p.accept("and") {
		first := left
		var second func(row) bool
		second, err = p.term()
		left = func(r row) bool { return first(r) && second(r) }
	}
	return left, err
}

func (p *insightsParser) term() (func(row) bool, error) {
	switch {
	case p.accept("not"):
		inner, err := p.term()
		return func(r row) bool { return !inner(r) }, err
	case p.accept("("):
		inner, err := p.or()
		if err != nil {
			return nil, err
		}
		return inner, p.expect(")")
	case p.accept("ispresent"):
		if err := p.expect("("); err != nil {
			return nil, err
		}
		name, err := p.field()
		if err != nil {
			return nil, err
		}
		return func(r row) bool { _, ok := r[name]; return ok }, p.expect(")")
	}
	name, err := p.field()
	if err != nil {
		return nil, err
	}
	operator, literal := p.next(), p.next()
	if operator == "like" {
		return like(name, literal)
	}
	want, number, err := literalOf(literal)
	if err != nil {
		return nil, err
	}
	holds, ok := map[string]func(int) bool{
		"=": func(c int) bool { return c == 0 }, "!=": func(c int) bool { return c != 0 },
		"<": func(c int) bool { return c < 0 }, "<=": func(c int) bool { return c <= 0 },
		">": func(c int) bool { return c > 0 }, ">=": func(c int) bool { return c >= 0 },
	}[operator]
	if !ok {
		return nil, fmt.Errorf("the operator %q is not known here", operator)
	}
	return func(r row) bool {
		switch v := r[name].(type) {
		case float64:
			return holds(cmp.Compare(v, number))
		case string:
			return holds(strings.Compare(v, want))
		}
		return false
	}, nil
}

func like(name, literal string) (func(row) bool, error) {
	pattern := regexp.QuoteMeta(strings.Trim(literal, `"`))
	if strings.HasPrefix(literal, "/") {
		pattern = strings.Trim(literal, "/")
	}
	re, err := regexp.Compile(pattern)
	return func(r row) bool { s, ok := r[name].(string); return ok && re.MatchString(s) }, err
}

func literalOf(t string) (string, float64, error) {
	if strings.HasPrefix(t, `"`) {
		return strings.Trim(t, `"`), math.NaN(), nil
	}
	n, err := strconv.ParseFloat(t, 64)
	return "", n, err
}

// aggregate is one function of stats.
type aggregate struct {
	function, field, as string
	percent             float64
}

func (p *insightsParser) stats(rows []row) ([]row, error) {
	var all []aggregate
	for {
		a := aggregate{function: p.next()}
		if err := p.expect("("); err != nil {
			return nil, err
		}
		if !p.accept("*") {
			var err error
			if a.field, err = p.field(); err != nil {
				return nil, err
			}
		}
		if p.accept(",") {
			var err error
			if a.percent, err = strconv.ParseFloat(p.next(), 64); err != nil {
				return nil, err
			}
		}
		if err := p.expect(")"); err != nil {
			return nil, err
		}
		if err := p.expect("as"); err != nil {
			return nil, err
		}
		a.as = p.next()
		if all = append(all, a); !p.accept(",") {
			break
		}
	}
	var by []string
	bin := time.Duration(0)
	for p.peek() == "by" || p.peek() == "," {
		p.next()
		if p.accept("bin") {
			var err error
			p.accept("(")
			if bin, err = time.ParseDuration(p.next()); err != nil {
				return nil, err
			}
			if err := p.expect(")"); err != nil {
				return nil, err
			}
			continue
		}
		name, err := p.field()
		if err != nil {
			return nil, err
		}
		by = append(by, name)
	}
	groups := map[string][]row{}
	for _, r := range rows {
		key := ""
		for _, name := range by {
			key += fmt.Sprint(r[name]) + "\x00"
		}
		if bin > 0 {
			at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(r["@timestamp"]))
			if err != nil {
				return nil, err
			}
			key += at.Truncate(bin).String()
		}
		groups[key] = append(groups[key], r)
	}
	var out []row
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		result := row{}
		for _, name := range by {
			result[name] = groups[key][0][name]
		}
		for _, a := range all {
			v, err := a.of(groups[key])
			if err != nil {
				return nil, err
			}
			result[a.as] = v
		}
		out = append(out, result)
	}
	return out, nil
}

func (a aggregate) of(rows []row) (float64, error) {
	var vs []float64
	sum := 0.0
	for _, r := range rows {
		if v, ok := r[a.field].(float64); ok {
			vs, sum = append(vs, v), sum+v
		}
	}
	slices.Sort(vs)
	switch {
	case a.function == "count" && a.field == "":
		return float64(len(rows)), nil
	case a.field == "" || len(vs) == 0 && a.function != "sum":
		return 0, fmt.Errorf("%s of nothing", a.function)
	case a.function == "sum":
		return sum, nil
	case a.function == "max":
		return vs[len(vs)-1], nil
	case a.function == "avg":
		return sum / float64(len(vs)), nil
	case a.function == "pct":
		return vs[min(len(vs)-1, int(a.percent/100*float64(len(vs))))], nil
	}
	return 0, fmt.Errorf("the function %q is not known here", a.function)
}

func (p *insightsParser) sort(rows []row) ([]row, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	name, err := p.field()
	if err != nil {
		return nil, err
	}
	sign := 1
	if !p.accept("asc") && p.accept("desc") {
		sign = -1
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		x, ok := a[name].(float64)
		y, also := b[name].(float64)
		if ok && also {
			return sign * cmp.Compare(x, y)
		}
		return sign * strings.Compare(fmt.Sprint(a[name]), fmt.Sprint(b[name]))
	})
	return rows, nil
}

// parse reads parts of a text field by a pattern with asterisks.
func (p *insightsParser) parse(rows []row) ([]row, error) {
	name, err := p.field()
	if err != nil {
		return nil, err
	}
	pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.Trim(p.next(), `"`)), `\*`, "(.*?)")
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	if err := p.expect("as"); err != nil {
		return nil, err
	}
	var into []string
	for {
		if into = append(into, p.next()); !p.accept(",") {
			break
		}
	}
	if re.NumSubexp() != len(into) {
		return nil, fmt.Errorf("%d asterisks for %d names", re.NumSubexp(), len(into))
	}
	for _, r := range rows {
		text, _ := r[name].(string)
		for i, part := range re.FindStringSubmatch(text) {
			if i > 0 {
				r[into[i-1]] = part
			}
		}
	}
	return rows, nil
}

func TestInsights(t *testing.T) {
	lines := []string{
		`{"timestamp":"2026-03-01T10:00:01Z","level":"WARN","host":"a.example","ms":10,"error":"operation error KMS: Decrypt, x","in":{"n":1}}`,
		`{"timestamp":"2026-03-01T10:06:00Z","level":"WARN","host":"b.example","ms":30}`,
		`{"timestamp":"2026-03-01T10:06:02Z","level":"INFO","host":"b.example","ms":20}`,
		`no JSON`,
	}
	for query, want := range map[string]string{
		`fields host, ms | filter host = "b.example" | sort ms desc`:                                                            `[map[host:b.example ms:30] map[host:b.example ms:20]]`,
		"# a comment\nfilter ms >= 20 and level != \"INFO\" | fields ms":                                                        `[map[ms:30]]`,
		`filter not ispresent(error) | stats count(*) as n by level`:                                                            `[map[level:INFO n:1] map[level:WARN n:1]]`,
		`stats sum(ms) as all, max(ms) as most by bin(5m)`:                                                                      `[map[all:10 most:10] map[all:50 most:30]]`,
		`filter error like "error KMS" | parse error "operation error *: *," as service, operation | fields service, operation`: `[map[operation:Decrypt service:KMS]]`,
		`filter host like /^b/ or ms < 5 | stats pct(ms, 99) as slow`:                                                           `[map[slow:30]]`,
		`filter (in.n = 1) | fields in.n, @timestamp`:                                                                           `[map[@timestamp:2026-03-01T10:00:01Z in.n:1]]`,
		`sort host desc | limit 1 | fields host`:                                                                                `[map[host:b.example]]`,
	} {
		got, err := insights(query, lines)
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %v, %v, want %s", query, got, err, want)
		}
	}
	for _, broken := range []string{
		`fields msg`, `filter host ~ "a"`, `dedup host`, `stats median(ms) as m`, `limit many`, `fields host ms`,
		`parse error "*" as a, b`, `stats count(*)`, `filter host = b`, `filter (ms > 1`,
	} {
		if got, err := insights(broken, lines); err == nil {
			t.Errorf("%s: %v", broken, got)
		}
	}
}

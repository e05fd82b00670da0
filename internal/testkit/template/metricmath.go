package template

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"strconv"
	"strings"
)

// evaluate computes an expression of CloudWatch's metric math for one period: numbers,
// ids of metrics, + - * /, comparisons, FILL, IF, and MAX and SUM of a list. A metric
// without a value is NaN, and so is what is computed from it, except by FILL.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html
//
// That subset is the syntax of Go's expressions, except the list.
func evaluate(expression string, value func(id string) (float64, bool)) (float64, error) {
	goish := strings.NewReplacer("[", "LIST(", "]", ")").Replace(expression)
	e, err := parser.ParseExpr(goish)
	if err != nil {
		return 0, fmt.Errorf("expression %q: %w", expression, err)
	}
	v, err := compute(e, value)
	if err != nil {
		return 0, fmt.Errorf("expression %q: %w", expression, err)
	}
	return v, nil
}

func compute(e ast.Expr, value func(string) (float64, bool)) (float64, error) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return compute(e.X, value)
	case *ast.BasicLit:
		return strconv.ParseFloat(e.Value, 64)
	case *ast.Ident:
		v, ok := value(e.Name)
		if !ok {
			return 0, fmt.Errorf("there is no metric %s", e.Name)
		}
		return v, nil
	case *ast.BinaryExpr:
		return binary(e, value)
	case *ast.CallExpr:
		return call(e, value)
	}
	return 0, fmt.Errorf("%T is not understood here", e)
}

func binary(e *ast.BinaryExpr, value func(string) (float64, bool)) (float64, error) {
	x, err := compute(e.X, value)
	if err != nil {
		return 0, err
	}
	y, err := compute(e.Y, value)
	if err != nil {
		return 0, err
	}
	truth := func(b bool) float64 {
		switch {
		case math.IsNaN(x) || math.IsNaN(y):
			return math.NaN()
		case b:
			return 1
		}
		return 0
	}
	switch e.Op {
	case token.ADD:
		return x + y, nil
	case token.SUB:
		return x - y, nil
	case token.MUL:
		return x * y, nil
	case token.QUO:
		return x / y, nil
	case token.GTR:
		return truth(x > y), nil
	case token.LSS:
		return truth(x < y), nil
	}
	return 0, fmt.Errorf("operator %s is not understood here", e.Op)
}

func call(e *ast.CallExpr, value func(string) (float64, bool)) (float64, error) {
	function, _ := e.Fun.(*ast.Ident)
	args := e.Args
	if function == nil {
		return 0, fmt.Errorf("%T is no function", e.Fun)
	}
	// MAX and SUM take one argument, the list.
	if l, ok := args[0].(*ast.CallExpr); ok && len(args) == 1 {
		if f, ok := l.Fun.(*ast.Ident); ok && f.Name == "LIST" {
			args = l.Args
		}
	}
	var vs []float64
	for _, a := range args {
		v, err := compute(a, value)
		if err != nil {
			return 0, err
		}
		vs = append(vs, v)
	}
	switch {
	case function.Name == "FILL" && len(vs) == 2:
		if math.IsNaN(vs[0]) {
			return vs[1], nil
		}
		return vs[0], nil
	case function.Name == "IF" && len(vs) == 3:
		switch {
		case math.IsNaN(vs[0]):
			return math.NaN(), nil
		case vs[0] != 0:
			return vs[1], nil
		}
		return vs[2], nil
	case function.Name == "MAX" && len(args) == len(vs) && len(vs) > 0:
		most := vs[0]
		for _, v := range vs[1:] {
			most = math.Max(most, v) // NaN if one is
		}
		return most, nil
	case function.Name == "SUM":
		sum := 0.0
		for _, v := range vs {
			sum += v
		}
		return sum, nil
	}
	return 0, fmt.Errorf("function %s with %d arguments is not understood here", function.Name, len(vs))
}

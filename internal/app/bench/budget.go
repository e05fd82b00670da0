package bench

import (
	"errors"
	"fmt"
)

// Budget is the processor time that a delivery may take, in RSA-2048 signatures of the same machine.
type Budget struct {
	Runs []BudgetRun `json:"runs"`
}

type BudgetRun struct {
	Plan
	InSignatures float64 `json:"inSignatures"`
	// InCalls is the time from the end of a call until its delivery begins, in durations of a
	// call, both at the median; 0: any.
	InCalls float64 `json:"inCalls,omitempty"`
}

// Tolerance is the factor by which a figure may exceed its budget, as measurements vary.
const Tolerance = 1.25

// ErrBudget says that a delivery costs more than its budget.
var ErrBudget = errors.New("over budget")

func ReadBudget(file string) (Budget, error) {
	var b Budget
	if err := readJSON(file, &b); err != nil {
		return Budget{}, fmt.Errorf("budget: %w", err)
	}
	errs := make([]error, len(b.Runs))
	for i, r := range b.Runs {
		errs[i] = r.Check()
		if !(r.InSignatures > 0) {
			errs[i] = errors.Join(errs[i], fmt.Errorf("run %d has no inSignatures", i+1))
		}
	}
	if err := errors.Join(errs...); err != nil || len(b.Runs) == 0 {
		return Budget{}, fmt.Errorf("budget: %s has %d runs: %w", file, len(b.Runs), errors.Join(err, ErrPlan))
	}
	return b, nil
}

// Over returns by what factor r exceeds the budget with the tolerance, and whether it does.
func (b BudgetRun) Over(r Result) (float64, bool) {
	factor := r.server().InSignatures / b.InSignatures
	if b.InCalls > 0 {
		factor = max(factor, r.inCalls()/b.InCalls)
	}
	return factor, factor > Tolerance || r.Server == nil
}

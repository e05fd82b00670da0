package long

import "testing"

func TestTheSwitchIsOffUnlessItsVariableIsSet(t *testing.T) {
	for value, want := range map[string]bool{"": false, "0": false, "1": true, "yes": true} {
		t.Setenv(Variable, value)
		if got := On(); got != want {
			t.Errorf("%s=%q: the switch is on: %t, want %t", Variable, value, got, want)
		}
		if got, want := Pick("fast", "whole"), map[bool]string{false: "fast", true: "whole"}[want]; got != want {
			t.Errorf("%s=%q: Pick returned %q, want %q", Variable, value, got, want)
		}
	}
}

func TestALongTestIsSkippedUnlessTheSwitchIsOn(t *testing.T) {
	for value, want := range map[string]bool{"0": true, "1": false} {
		t.Setenv(Variable, value)
		skipped := true
		t.Run("value "+value, func(t *testing.T) {
			defer func() { skipped = t.Skipped() }()
			Only(t, "it sleeps for an hour")
		})
		if skipped != want {
			t.Errorf("%s=%q: the test was skipped: %t, want %t", Variable, value, skipped, want)
		}
	}
}

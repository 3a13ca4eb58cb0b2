package profile_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"servesim/sim/profile"
	"servesim/sim/trace"
)

// 20 a second for 2 s are 40 in the system; 4 observed is a finding.
func TestCheckLittle(t *testing.T) {
	for _, c := range []struct {
		observed float64
		finding  bool
	}{{40, false}, {37, false}, {44, false}, {35.9, true}, {44.5, true}, {4, true}, {400, true}, {math.NaN(), false}} {
		l := profile.CheckLittle(c.observed, 20, 2)
		if l.InSystem != 40 || (l.Finding != "") != c.finding {
			t.Errorf("%v observed: %+v", c.observed, l)
		}
	}
	if l := profile.CheckLittle(4, 20, 2); !strings.HasPrefix(l.Finding, "Little's law: 4 in the system observed, 40 expected from 20/s × 2 s:") {
		t.Errorf("%s", l.Finding)
	}
}

// steady is n requests, one every 50 ms, of 2 s each.
func steady(n int) (records []trace.Record) {
	for i := range n {
		records = append(records, record(fmt.Sprint(i), 1, 2, 50*float64(i), 0, 0, 500, 500, 0, 0, 1000))
	}
	return records
}

func TestLittle(t *testing.T) {
	r := analyse(t, steady(2000), profile.Options{InSystem: 4})
	if math.Abs(float64(r.Little.InSystem)-40) > 1 || !near(r.Little.MeanS, 2) || r.Little.Finding == "" || r.Little.Unsteady != "" {
		t.Errorf("%+v", r.Little)
	}
	if s := text(t, &r); !has(s, "finding: Little's law: 4 in the system observed, 39.23 expected") {
		t.Errorf("%s", s)
	}
	if l := analyse(t, steady(2000), profile.Options{InSystem: 40}).Little; l.Finding != "" {
		t.Errorf("%+v", l)
	}
	if l := analyse(t, steady(2000), profile.Options{}).Little; l.Observed.Defined() || l.Finding != "" {
		t.Errorf("%+v", l)
	}
	// Half of the requests lost on the way into the trace.
	var half []trace.Record
	for i, r := range steady(2000) {
		if i%2 == 0 {
			half = append(half, r)
		}
	}
	if l := analyse(t, half, profile.Options{InSystem: 40}).Little; l.Finding == "" {
		t.Errorf("half is lost: %+v", l)
	}
}

// A queue that grows until the arrivals stop is no steady interval.
func TestUnsteady(t *testing.T) {
	var growing []trace.Record
	for i := range 2000 {
		growing = append(growing, record(fmt.Sprint(i), 1, 2, 50*float64(i), 0, 0, 30*float64(i), 500, 0, 0, 0))
	}
	if l := analyse(t, growing, profile.Options{}).Little; !strings.HasPrefix(l.Unsteady, "not steady, or short: 38 % of the time") {
		t.Errorf("%+v", l)
	}
	one := analyse(t, growing[:1], profile.Options{}).Little
	if one.Unsteady != "" || !near(one.InSystem, 1) {
		t.Errorf("one request: %+v", one)
	}
	none := analyse(t, []trace.Record{record("a", 1, 1, 0, 0, 0, 0, 0, 0, 0, 0)}, profile.Options{}).Little
	if none.InSystem.Defined() {
		t.Errorf("no time: %+v", none)
	}
}

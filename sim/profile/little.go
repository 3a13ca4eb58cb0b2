package profile

import (
	"fmt"
	"math"
	"time"
)

// Little holds the sides of Little's law, L = λW.
type Little struct {
	// InSystem is what the trace implies: λW, from the first request sent to
	// the last token.
	InSystem Number `json:"in_system"`
	RatePerS Number `json:"rate_per_s"` // λ: requests that ended, per second
	MeanS    Number `json:"mean_s"`     // W: mean E2E
	// Observed is Options.InSystem, or undefined.
	Observed Number `json:"observed"`
	// Finding says that Observed and InSystem differ. Unsteady says that the
	// requests had not left when the last one came, so that figures depend on
	// where the trace was cut.
	Finding  string `json:"finding,omitempty"`
	Unsteady string `json:"unsteady,omitempty"`
}

// littleTolerance is the difference that counts as agreement, as a fraction of
// the larger side: gauges are sampled, and requests straddle the ends.
const littleTolerance = 0.1

// CheckLittle compares the mean number in the system that was observed with
// the rate times the mean time, both of other requests or of the same. The
// finding is empty if they agree within a tenth. A rate that was not measured
// agrees with everything.
func CheckLittle(observed, ratePerS, meanS float64) Little {
	l := Little{InSystem: Number(ratePerS * meanS), RatePerS: Number(ratePerS), MeanS: Number(meanS), Observed: Number(observed)}
	if math.Abs(observed-float64(l.InSystem)) > littleTolerance*max(math.Abs(observed), math.Abs(float64(l.InSystem))) {
		l.Finding = fmt.Sprintf("Little's law: %s in the system observed, %s expected from %s/s × %s s: the boundaries differ, "+
			"observations are lost or the interval is not steady", significant(observed), significant(float64(l.InSystem)), significant(ratePerS), significant(meanS))
	}
	return l
}

// significant formats v with four digits or more.
func significant(v float64) string {
	if math.Abs(v) >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.4g", v)
}

func (p *Profiler) little(rows []*row) Little {
	observed := undefined()
	if p.options.InSystem > 0 {
		observed = Number(p.options.InSystem)
	}
	none := Little{InSystem: undefined(), RatePerS: undefined(), MeanS: undefined(), Observed: observed}
	if len(rows) == 0 {
		return none
	}
	first, last, end := rows[0].times[clientSend], rows[0].times[clientSend], rows[0].times[lastTokenClient]
	for _, r := range rows {
		first, last, end = min(first, r.times[clientSend]), max(last, r.times[clientSend]), max(end, r.times[lastTokenClient])
	}
	if end == first {
		return none
	}
	var spent, behind total // ns in the system, and those of them behind the last arrival
	for _, r := range rows {
		spent.add(float64(r.between(clientSend, lastTokenClient)))
		behind.add(float64(max(0, r.times[lastTokenClient]-last)))
	}
	mean := spent.mean()
	l := CheckLittle(float64(observed), float64(len(rows))/(float64(end-first)/1e9), mean/1e9)
	if share := behind.mean() / mean; last > first && share > littleTolerance {
		l.Unsteady = fmt.Sprintf("not steady, or short: %.0f %% of the time in the system lies behind the last arrival, %v after the first", 100*share, time.Duration(last-first).Round(time.Millisecond))
	}
	return l
}

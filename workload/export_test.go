package workload

import "math/rand/v2"

// Inner functions whose values no exported one shows at full resolution.
var (
	ParseTimestamp = parseTimestamp
	ParseRare      = parseRare
	NormalBetween  = normalBetween
)

// LogGamma returns a function that draws logarithms of gamma variates.
func LogGamma(shape float64) func(*rand.Rand) float64 {
	g := newLogGamma(shape)
	return g.draw
}

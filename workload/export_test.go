package workload

import (
	"math/rand/v2"
	"reflect"
)

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

// DocumentFields returns what a document can say: "gamma.rate_per_s" is a field
// of a kind, ".ttft_ms" one of a type without kinds.
func DocumentFields() (fields []string) {
	seen := map[reflect.Type]bool{}
	var visit func(kind string, t reflect.Type)
	visit = func(kind string, t reflect.Type) {
		switch {
		case t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice:
			visit(kind, t.Elem())
		case seen[t]:
		case t.Kind() == reflect.Interface || isClientPath(t) && kind == "":
			seen[t] = true
			for _, k := range kindsOf(t) {
				fields = append(fields, k.name+".kind")
				if k.field != "" {
					fields = append(fields, k.name+"."+k.field)
				} else if k.preset == nil {
					if reflect.TypeOf(k.value) == t {
						delete(seen, t)
					}
					visit(k.name, reflect.TypeOf(k.value))
				}
			}
		case t.Kind() == reflect.Struct:
			seen[t] = true
			for _, f := range documentFields(t) {
				if f.name != "" {
					fields = append(fields, kind+"."+f.name)
					visit("", t.FieldByIndex(f.index).Type)
				}
			}
		}
	}
	visit("", reflect.TypeFor[Document]())
	return fields
}

// DocumentTypes returns the types that have a kind, and how many kinds are
// presets.
func DocumentTypes() (types []string, presets int) {
	for _, kinds := range [][]documentKind{requesterKinds, arrivalKinds, rateKinds, lengthsKinds, lengthKinds, delayKinds, preambleKinds, pathKinds} {
		for _, k := range kinds {
			if k.preset != nil {
				presets++
				continue
			}
			t := reflect.TypeOf(k.value)
			if t.Kind() == reflect.Pointer {
				t = t.Elem()
			}
			types = append(types, t.Name())
		}
	}
	return types, presets
}

package main

import (
	"errors"
	"fmt"
	"math"
)

// errVariable refuses a conversion that needs one number of drafts.
var errVariable = errors.New("steps check different numbers of drafts, so time and useful tokens have to be measured together")

// stepRate is a measured rate of steps, from which others estimate tokens.
type stepRate struct {
	StepsPerS float64
	Requests  int // in every step
	Drafts    int // checked for each of them, in every step
	// Variable says that Drafts does not hold for every step.
	Variable bool
	CPSize   int // devices that share the sequences of a rank; 0 means 1
}

// fullAcceptance returns the tokens per second and device if every draft were
// right.
func (r stepRate) fullAcceptance() (float64, error) {
	if r.Variable {
		return math.NaN(), errVariable
	}
	return r.useful(float64(1 + r.Drafts))
}

// useful returns the tokens per second and device at a mean of tau useful
// tokens per request and step. It panics if tau is none that 1 + Drafts
// positions can have.
func (r stepRate) useful(tau float64) (float64, error) {
	if r.Variable {
		return math.NaN(), errVariable
	}
	if !(tau >= 1 && tau <= float64(1+r.Drafts)) {
		panic(fmt.Sprintf("speculate: %v useful tokens of %d positions", tau, 1+r.Drafts))
	}
	return r.StepsPerS * float64(r.Requests) * tau / float64(max(r.CPSize, 1)), nil
}

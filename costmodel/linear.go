package costmodel

import (
	"fmt"
	"time"

	"servesim/sim"
)

// Linear prices a step by its counts. It uses integers only, so times worked
// out by hand agree to the nanosecond. Fields must not be negative; zero means
// that the count is free.
type Linear struct {
	Fixed           time.Duration // per step
	PerPromptToken  time.Duration // per prompt position, padding included
	PerDecode       time.Duration // per position of the decoding sequences, padding rows included
	PerContextToken time.Duration // per token in the KV cache that decodes and chunks read
}

// StepTime returns the price of b.
func (l Linear) StepTime(b sim.Batch) time.Duration {
	if l.Fixed < 0 || l.PerPromptToken < 0 || l.PerDecode < 0 || l.PerContextToken < 0 {
		panic(l.Validate().Error())
	}
	checkBatch(&b)
	prompt, context := b.Padding.PromptTokens, b.Context
	for _, c := range b.Prefills {
		prompt += c.Tokens
		context += c.Context
	}
	rows := b.Positions + b.Padding.Rows
	return l.Fixed +
		time.Duration(prompt)*l.PerPromptToken +
		time.Duration(rows)*l.PerDecode +
		time.Duration(context)*l.PerContextToken
}

// Validate names the first negative field.
func (l Linear) Validate() error {
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"Fixed", l.Fixed}, {"PerPromptToken", l.PerPromptToken},
		{"PerDecode", l.PerDecode}, {"PerContextToken", l.PerContextToken},
	} {
		if f.value < 0 {
			return fmt.Errorf("costmodel: Linear.%s is %v", f.name, f.value)
		}
	}
	return nil
}

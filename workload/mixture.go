package workload

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"servesim/sim"
)

// Mixture is a bivariate log-normal mixture of prompt and output lengths: a
// component is drawn by weight, then both lengths from it, rounded and clipped
// to [1, MaxPrompt] and [1, MaxOutput]; what lies above a bound is moved to
// it. Components are narrow and look like applications, which reproduces
// dependence that no correlation shows.
type Mixture struct {
	Components []Component `doc:"components"`
	MaxPrompt  int         `doc:"max_prompt_tokens,opt"` // 0 means 2^31-1
	MaxOutput  int         `doc:"max_output_tokens,opt"` // 0 means 2^31-1
}

// Component is one bivariate log-normal law.
type Component struct {
	Weight float64 `doc:"weight"` // at least 0; weights are divided by their sum
	// MedianPrompt and MedianOutput are in tokens, above 0.
	MedianPrompt float64 `doc:"median_prompt_tokens"`
	MedianOutput float64 `doc:"median_output_tokens"`
	// SigmaPrompt and SigmaOutput are the standard deviations of the natural
	// logarithms, at least 0.
	SigmaPrompt float64 `doc:"sigma_prompt"`
	SigmaOutput float64 `doc:"sigma_output"`
	// Rho is the correlation of the logarithms, in [-1, 1].
	Rho float64 `doc:"rho,opt"`
}

// Validate reports an invalid field.
func (m Mixture) Validate() error {
	if len(m.Components) == 0 {
		return errors.New("no Components in Mixture")
	}
	weights := make([]float64, len(m.Components))
	for i, c := range m.Components {
		if err := c.validate(); err != nil {
			return fmt.Errorf("Mixture.Components[%d].%w", i, err)
		}
		weights[i] = c.Weight
	}
	if err := checkWeights("Mixture weights", weights); err != nil {
		return err
	}
	if m.MaxPrompt < 0 || m.MaxPrompt > maxTokens {
		return fmt.Errorf("Mixture.MaxPrompt is %d, want 0 to %d", m.MaxPrompt, maxTokens)
	}
	if m.MaxOutput < 0 || m.MaxOutput > maxTokens {
		return fmt.Errorf("Mixture.MaxOutput is %d, want 0 to %d", m.MaxOutput, maxTokens)
	}
	return nil
}

func (c Component) validate() error {
	err := errors.Join(
		checkNotNegative("Weight", c.Weight),
		checkPositive("MedianPrompt", c.MedianPrompt),
		checkPositive("MedianOutput", c.MedianOutput),
		checkNotNegative("SigmaPrompt", c.SigmaPrompt),
		checkNotNegative("SigmaOutput", c.SigmaOutput),
	)
	if err == nil && !(c.Rho >= -1 && c.Rho <= 1) {
		err = fmt.Errorf("%s is %v, want -1 to 1", "Rho", c.Rho)
	}
	return err
}

// Draw implements [Lengths].
func (m Mixture) Draw(r *rand.Rand) Tokens {
	c := &m.Components[pick(r, m.Components, func(c *Component) float64 { return c.Weight })]
	z := r.NormFloat64()
	own := r.NormFloat64()
	y := float64(c.Rho*z) + float64(math.Sqrt(1-float64(c.Rho*c.Rho))*own)
	return Tokens{
		Prompt: clip(c.MedianPrompt*math.Exp(c.SigmaPrompt*z), 1, m.MaxPrompt),
		Output: clip(c.MedianOutput*math.Exp(c.SigmaOutput*y), 1, m.MaxOutput),
	}
}

// Shares returns one share per component, a class of its own with the weight
// and the lengths of the component: together they are the mixture, but
// each can have targets. Classes are named by place, from 0.
func (m Mixture) Shares() []Share {
	shares := make([]Share, len(m.Components))
	for i, c := range m.Components {
		own := c
		own.Weight = 1
		shares[i] = Share{
			Class:   sim.Class{Name: strconv.Itoa(i)},
			Weight:  c.Weight,
			Lengths: Mixture{Components: []Component{own}, MaxPrompt: m.MaxPrompt, MaxOutput: m.MaxOutput},
		}
	}
	return shares
}

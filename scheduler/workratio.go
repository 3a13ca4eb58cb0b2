package scheduler

import (
	"fmt"
	"time"

	"servesim/sim"
)

// WorkRatio is a role controller that divides the replicas as the work that
// comes in is divided: prompt tokens over PromptRate, and output tokens over
// TokenRate, both the time of one replica. It takes the outputs to come for
// as long as those of the requests that have completed. It is an observer, too:
// list it in sim.Config.Observers, as [Dynamic] does.
//
// It moves one replica at a time, that with the least to finish, and none while
// another drains or fewer than ten requests speak for it. Replicas of RoleBoth are
// left alone.
type WorkRatio struct {
	// PromptRate is the number of prompt tokens that a prefill replica computes
	// per second, TokenRate the number of output tokens that a decode replica
	// samples per second with as many requests as it should have.
	PromptRate, TokenRate float64
	// Every is the time from look to look. 0 means one second.
	Every time.Duration
	// Window is the time over which the work is averaged: what is older by so
	// much counts about 1/e of what is new. 0 means 30 seconds. It should be long
	// against bursts that the queues can take.
	Window time.Duration
	// Margin is the hysteresis, in replicas: a pool changes when its share is
	// more than half a replica and Margin away from its size. 0 means 0.25.
	Margin float64
	// MinPrefill and MinDecode are the least replicas of each pool. 0 means 1.
	MinPrefill, MinDecode int

	sum, fresh workCount
}

// workCount is what has come in: requests and their prompt tokens, and those that
// have completed with their output tokens.
type workCount struct{ arrived, prompts, completed, outputs float64 }

// Observe counts what arrives and how long answers are.
func (c *WorkRatio) Observe(e sim.Event) {
	switch e.Kind {
	case sim.Arrive:
		c.fresh.arrived++
		c.fresh.prompts += float64(e.Prompt)
	case sim.Finish:
		c.fresh.completed++
		c.fresh.outputs += float64(e.Output)
	}
}

// Control implements sim.RoleController.
func (c *WorkRatio) Control(now sim.Time, loads []sim.Load) ([]sim.RoleChange, sim.Time) {
	if !(c.PromptRate > 0 && c.TokenRate > 0 && c.Margin >= 0) || c.Window < 0 {
		panic(fmt.Sprintf("scheduler: WorkRatio of %v prompt and %v output tokens a second, Margin %v, Window %v", c.PromptRate, c.TokenRate, c.Margin, c.Window))
	}
	every := interval("WorkRatio.Every", c.Every)
	c.average(every)
	p := countPools(loads, c.MinPrefill, c.MinDecode)
	next := now.Add(every)
	if p.draining || c.sum.completed == 0 || c.sum.arrived < fewest {
		return nil, next
	}
	margin := c.Margin
	if margin == 0 {
		margin = 0.25
	}
	away := float64(c.share()*float64(p.prefill+p.decode)) - float64(p.prefill)
	switch {
	case away > 0.5+margin && p.canGive(sim.RoleDecode):
		return p.move(loads, sim.RolePrefill), next
	case away < -0.5-margin && p.canGive(sim.RolePrefill):
		return p.move(loads, sim.RoleDecode), next
	}
	return nil, next
}

// fewest is how many requests, those of the past counted as they fade, tell more
// than chance does.
const fewest = 10

// average adds what is fresh to the sums and lets them fade: only their ratios
// matter.
func (c *WorkRatio) average(every time.Duration) {
	window := c.Window
	if window == 0 {
		window = 30 * time.Second
	}
	keep := window.Seconds() / (window + every).Seconds()
	c.sum.arrived = float64(c.sum.arrived*keep) + c.fresh.arrived
	c.sum.prompts = float64(c.sum.prompts*keep) + c.fresh.prompts
	c.sum.completed = float64(c.sum.completed*keep) + c.fresh.completed
	c.sum.outputs = float64(c.sum.outputs*keep) + c.fresh.outputs
	c.fresh = workCount{}
}

// share returns the part of the work that prompts are.
func (c *WorkRatio) share() float64 {
	prompt := c.sum.prompts / c.PromptRate
	decode := c.sum.arrived * (c.sum.outputs / c.sum.completed) / c.TokenRate
	return prompt / (prompt + decode)
}

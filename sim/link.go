package sim

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Role says what a replica does with prompts and decodes.
type Role uint8

// The roles.
const (
	RoleBoth    Role = iota // computes prompts and decodes them
	RolePrefill             // computes prompts and hands the requests over
	RoleDecode              // takes requests over; it computes prompts that are routed to it too
)

// String returns the role's name in lower case.
func (r Role) String() string { return [...]string{"both", "prefill", "decode"}[r] }

// FirstTokenSide says which side of a disaggregated deployment samples the first
// token.
type FirstTokenSide uint8

// The sides.
const (
	// FirstFromPrefill samples it at the end of the step that completes the
	// prompt. On an idle system TTFT = C, and the second token comes at
	// C + X + D: compute time of the prompt, transfer, one decode step.
	FirstFromPrefill FirstTokenSide = iota
	// FirstFromDecode computes the last position of the prompt once more on
	// the decode side, which samples it there (vLLM's KV connectors).
	// TTFT = C + X + D.
	FirstFromDecode
)

// Link carries KV from the replicas that computed it to those that decode. The
// port of each replica carries Bandwidth out and, at the same time, Bandwidth
// in; all transfers together share Fabric. Transfers share both max-min fairly:
// when one starts or ends the others get new rates.
//
// The receiving side pulls ([Plan.Pull]): its blocks are taken before the
// transfer starts, and those of the source are held until the last byte has
// left. Blocks move whole. Of a request that ends meanwhile what is ready moves,
// and nothing more; a prompt that is preempted while it is sent frees its blocks
// at once, and what has left need not leave again.
//
// Bytes and rates are float64. When a transfer starts or ends, more of one is
// ready, or a window opens or closes, each has moved its rate times the seconds
// since the last such instant, and gets a new rate; it ends when what is left has
// moved, to the nearest nanosecond.
type Link struct {
	// TokenBytes is the KV of one token over all layers.
	TokenBytes int64
	// Bandwidth of a replica's port in each direction, in bytes per second.
	Bandwidth float64
	// Fabric is what all transfers get together, in bytes per second. 0 means
	// no limit.
	Fabric float64
	// Latency passes between the start of a transfer and its first byte.
	Latency time.Duration
	// Layers, above 1, sends each of so many equal layers as soon as a step has
	// computed it, while the prompt is still being computed. The decode side is
	// chosen when the prompt is admitted, or if the router names none then, when
	// it is complete; View.Coming shows it what comes.
	// A prompt of one step that is pulled when it starts has arrived after
	// max(C + X/Layers, C/Layers + X), a later pull or a busy link makes it
	// later. The layers of a step but the last are ready together, when the first
	// of them is: on a shared link they may take more of it than they need.
	// 0 and 1 send when the prompt is complete, after C + X.
	Layers int
}

func (l *Link) validate() error {
	switch {
	case l.TokenBytes < 1:
		return fmt.Errorf("sim: Config.Link.TokenBytes is %d", l.TokenBytes)
	case !(l.Bandwidth > 0) || math.IsInf(l.Bandwidth, 0):
		return fmt.Errorf("sim: Config.Link.Bandwidth is %v", l.Bandwidth)
	case !(l.Fabric >= 0) || math.IsInf(l.Fabric, 0):
		return fmt.Errorf("sim: Config.Link.Fabric is %v", l.Fabric)
	case l.Latency < 0:
		return fmt.Errorf("sim: Config.Link.Latency is %v", l.Latency)
	case l.Layers < 0:
		return fmt.Errorf("sim: Config.Link.Layers is %d", l.Layers)
	}
	return nil
}

// validateRoles reports what is missing for the roles of the replicas.
func (c *Config) validateRoles() error {
	if c.Link != nil {
		if err := c.Link.validate(); err != nil {
			return err
		}
	}
	prompts, decodes, prefill := 0, 0, false
	for _, r := range c.Replicas {
		prompts += one(r.Role != RoleDecode)
		decodes += one(r.Role != RolePrefill)
		prefill = prefill || r.Role == RolePrefill
	}
	switch {
	case prefill && c.Link == nil:
		return errors.New("sim: Config.Link is nil with a replica of RolePrefill")
	case prefill && decodes == 0:
		return errors.New("sim: Config.Replicas: all have RolePrefill")
	case prompts == 0:
		return errors.New("sim: Config.Replicas: all have RoleDecode")
	case prompts > 1 && c.Router == nil:
		return fmt.Errorf("sim: Config.Router is nil with %d replicas that take prompts", prompts)
	case prefill && decodes > 1 && c.Handoff == nil:
		return fmt.Errorf("sim: Config.Handoff is nil with %d replicas that decode", decodes)
	}
	return nil
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

package costmodel

import (
	"fmt"
	"math"
	"time"

	"servesim/sim"
)

// Link is what carries data from one GPU to others.
type Link struct {
	Name       string
	Bandwidth  float64       // of one GPU, bytes per second one way; > 0
	Efficiency float64       // share of it that large transfers reach, at most 1; 0 means 1
	Latency    time.Duration // before the first byte; ≥ 0
}

// Rate returns the bytes per second that large transfers reach.
func (l Link) Rate() float64 { return float64(l.Bandwidth * share(l.Efficiency)) }

// Validate names the first field that is out of range.
func (l Link) Validate() error {
	switch {
	case !finite(l.Bandwidth) || l.Bandwidth == 0:
		return badField("Link.Bandwidth", l.Bandwidth)
	case !(l.Efficiency >= 0 && l.Efficiency <= 1):
		return fmt.Errorf("costmodel: Link.Efficiency is %v, not in [0, 1]", l.Efficiency)
	case l.Latency < 0:
		return badField("Link.Latency", l.Latency)
	}
	return nil
}

// KVLink returns the link between replicas of s: the KV of a token over all
// layers, and a port as wide as the GPUs of a replica have together. With fewer
// KV heads than GPUs each head is sent once.
func (s Setup) KVLink(l Link) (sim.Link, error) {
	if err := s.Validate(); err != nil {
		return sim.Link{}, err
	}
	if err := l.Validate(); err != nil {
		return sim.Link{}, err
	}
	return sim.Link{
		TokenBytes: int64(math.Ceil(s.Model.KVBytesPerToken())),
		Bandwidth:  l.Rate() * float64(s.degree()),
		Latency:    l.Latency,
	}, nil
}

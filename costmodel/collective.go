package costmodel

import (
	"fmt"
	"time"
)

// Collective is the time of an operation between n GPUs on m bytes, the whole
// tensor on one of them, over links of so many bytes per second:
//
//	all-reduce    Launch + 2(n−1)·Hop + 2·m·(n−1)/n / (Share·link)
//	gather        Launch + (n−1)·Hop + m·(n−1)/n / (Share·link)
//	send          Launch + m / (Share·link)
//
// The first two are rings; scattering and exchanging all to all cost as much
// as gathering. A measured Curve takes the place of all of it.
type Collective struct {
	Launch time.Duration // ≥ 0
	Hop    time.Duration // from one GPU to the next; ≥ 0
	Share  float64       // of the link, at most 1; 0 means 1
	// Curve is the measured time of the all-reduce on these GPUs; nil means
	// the formula. Gathering takes half of it.
	Curve Curve
}

// Curve is a measured time in seconds as a function of bytes. It must not
// fall.
type Curve interface {
	Seconds(bytes float64) float64
}

// AllReduce returns the seconds of summing a tensor over n GPUs.
func (c Collective) AllReduce(bytes float64, n int, link float64) float64 {
	switch {
	case n < 2 || bytes == 0:
		return 0
	case c.Curve != nil:
		return c.Curve.Seconds(bytes)
	}
	return c.Launch.Seconds() + float64(2*float64(n-1)*c.Hop.Seconds()) + 2*sent(bytes, n)/(share(c.Share)*link)
}

// Gather returns the seconds of collecting, scattering or exchanging a tensor
// whose parts lie on n GPUs.
func (c Collective) Gather(bytes float64, n int, link float64) float64 {
	switch {
	case n < 2 || bytes == 0:
		return 0
	case c.Curve != nil:
		return c.Curve.Seconds(bytes) / 2
	}
	return c.Launch.Seconds() + float64(float64(n-1)*c.Hop.Seconds()) + sent(bytes, n)/(share(c.Share)*link)
}

// Send returns the seconds of moving a tensor to another GPU.
func (c Collective) Send(bytes, link float64) float64 {
	return c.Launch.Seconds() + bytes/(share(c.Share)*link)
}

// sent are the bytes that each of n GPUs sends when a ring passes a tensor on
// once.
func sent(bytes float64, n int) float64 { return bytes * float64(n-1) / float64(n) }

func (c Collective) validate(name string) error {
	switch {
	case c.Launch < 0:
		return badField(name+".Launch", c.Launch)
	case c.Hop < 0:
		return badField(name+".Hop", c.Hop)
	case !(c.Share >= 0 && c.Share <= 1):
		return fmt.Errorf("costmodel: %s.Share is %v, not in [0, 1]", name, c.Share)
	}
	return nil
}

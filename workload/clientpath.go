package workload

import (
	"fmt"
	"math"
	"time"

	"servesim/sim"
)

// ClientPath is the law of the client's side of requests: every part of their
// sim.Path is drawn on its own. A part that is nil takes no time.
//
//	client ─ NetworkIn ─ Gateway ─ Retrieval ─ Assembly ─► engine ─ Proxy ─ NetworkOut ─► client ─ Tail
//
// A gateway whose delay depends on its load is a [GatewayQueue].
type ClientPath struct {
	NetworkIn Delay `doc:"network_in,opt"` // from the client to the gateway
	Gateway   Delay `doc:"gateway,opt"`    // authentication, quotas, routing
	Retrieval Delay `doc:"retrieval,opt"`  // passages that become part of the prompt
	Assembly  Delay `doc:"assembly,opt"`   // template and tokenisation

	// Proxy holds tokens back and sends several at once, by number, by the
	// clock, or whatever comes first.
	Proxy      sim.Proxy `doc:"proxy,opt"`
	NetworkOut Delay     `doc:"network_out,opt"` // from the proxy to the client
	Tail       Delay     `doc:"tail,opt"`        // detokenisation, rendering, a check, behind the last token
}

// pathPurposes key the streams of the parts of a path.
var pathPurposes = [...]string{"path network in", "path gateway", "path retrieval", "path assembly", "path network out", "path tail"}

const pathParts = len(pathPurposes)

var pathFields = [pathParts]string{"NetworkIn", "Gateway", "Retrieval", "Assembly", "NetworkOut", "Tail"}

// parts are the delays in the order of pathPurposes.
func (p *ClientPath) parts() [pathParts]Delay {
	return [...]Delay{p.NetworkIn, p.Gateway, p.Retrieval, p.Assembly, p.NetworkOut, p.Tail}
}

// Validate reports the first invalid field.
func (p ClientPath) Validate() error {
	for i, d := range p.parts() {
		if d == nil {
			continue
		}
		if err := validate("ClientPath."+pathFields[i], d); err != nil {
			return err
		}
	}
	if n := p.Proxy.Tokens; n < 0 {
		return fmt.Errorf("ClientPath.Proxy.Tokens is %d, want at least 0", n)
	}
	if d := p.Proxy.Every; d < 0 || d > longestDelay {
		return fmt.Errorf("ClientPath.Proxy.Every is %v, want from 0 to %v", d, longestDelay)
	}
	return nil
}

// Region is where a part of the clients is.
type Region struct {
	Name string `doc:"name,opt"`
	// Weight is the region's part of the requests after division by the sum of
	// all weights; at least 0. A single region needs none.
	Weight float64    `doc:"weight,opt"`
	Path   ClientPath `doc:"path,opt"`
}

// Regions are where the clients of a class are. Who comes from where is drawn
// by weight; a region that is added takes clients from the others and moves
// none between them.
type Regions []Region

// Validate reports the first invalid field.
func (r Regions) Validate() error {
	weights := make([]float64, len(r))
	names := map[string]bool{}
	for i := range r {
		if err := r[i].Path.Validate(); err != nil {
			return fmt.Errorf("Regions[%d].Path: %w", i, err)
		}
		if names[r[i].Name] {
			return fmt.Errorf("Regions[%d].Name %q is not unique", i, r[i].Name)
		}
		names[r[i].Name], weights[i] = true, r[i].Weight
	}
	if len(r) == 1 && r[0].Weight == 0 {
		return nil
	}
	return checkWeights("Regions weights", weights)
}

// pathDrawer draws the paths of one run.
type pathDrawer struct {
	ClientSide
	parts   [pathParts]drawStream
	regions map[string]drawStream
}

func newPathDrawer(c ClientSide) *pathDrawer {
	d := &pathDrawer{ClientSide: c, regions: map[string]drawStream{}}
	for i, purpose := range pathPurposes {
		d.parts[i] = newDrawStream(c.Seed, purpose)
	}
	for _, regions := range c.Classes {
		for _, r := range regions {
			d.regions[r.Name] = newDrawStream(c.Seed, fmt.Sprintf("path region %q", r.Name))
		}
	}
	return d
}

// region lets the regions of a class race for a client, as the classes of a
// [Workload] race for a request.
func (d *pathDrawer) region(class, id int, o sim.Origin) (*Region, error) {
	if len(d.Classes) == 1 {
		class = 0
	}
	if class < 0 || class >= len(d.Classes) {
		return nil, fmt.Errorf("request %d has class %d, ClientSide.Classes has %d", id, class, len(d.Classes))
	}
	regions := d.Classes[class]
	key := uint64(id)
	if d.BySession {
		key = mix(uint64(o.Source)) ^ uint64(o.Session)
	}
	winner, earliest := 0, math.Inf(1)
	for i := range regions {
		if len(regions) == 1 {
			break
		}
		if regions[i].Weight == 0 {
			continue
		}
		if t := d.regions[regions[i].Name].at(key).ExpFloat64() / regions[i].Weight; t < earliest {
			winner, earliest = i, t
		}
	}
	return &regions[winner], nil
}

// draw makes the path of a request. A delay that cannot be is an error, and
// stands in the path.
func (d *pathDrawer) draw(q *sim.Request) (*sim.Path, error) {
	region, err := d.region(q.Class, q.ID, q.Origin)
	if err != nil {
		return nil, err
	}
	law := &region.Path
	p := &sim.Path{Proxy: law.Proxy}
	drawn := [pathParts]*time.Duration{&p.NetworkIn, &p.Gateway, &p.Retrieval, &p.Assembly, &p.NetworkOut, &p.Tail}
	for i, part := range law.parts() {
		if part == nil {
			continue
		}
		v := part.Draw(d.parts[i].at(uint64(q.ID)))
		if *drawn[i] = v; (v < 0 || v > longestDelay) && err == nil {
			err = fmt.Errorf("ClientPath.%s of region %q drew %v for request %d, want from 0 to %v", pathFields[i], region.Name, v, q.ID, longestDelay)
		}
	}
	return p, err
}

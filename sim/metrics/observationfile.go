package metrics

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// WriteTo writes the configuration and the raw endpoints as JSON lines, one
// object each.
func (o *Observation) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	if err := out.Encode(o.Config); err != nil {
		return 0, err
	}
	for _, e := range o.Endpoints {
		if err := out.Encode(e); err != nil {
			return 0, err
		}
	}
	return b.WriteTo(w)
}

// ReadObservation reads what WriteTo writes; name is what errors call the file.
// They name its line and field. Every field must be there, but for an empty
// name, and none that it does not know.
func ReadObservation(r io.Reader, name string) (*Observation, error) {
	in := bufio.NewScanner(r)
	var o *Observation
	for line := 1; in.Scan(); line++ {
		if len(bytes.TrimSpace(in.Bytes())) == 0 {
			continue
		}
		var err error
		if o == nil {
			var c ObservationConfig
			if err = decodeLine(in.Bytes(), &c, "replica", "concurrency", "warm_up", "unmeasured", "steps", "draft", "cp_size"); err == nil {
				o, err = NewObservation(c)
			}
		} else {
			var e Endpoint
			if err = decodeLine(in.Bytes(), &e, "time_ns", "flushed", "omitted", "positions", "useful"); err == nil {
				err = o.append(e)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if o == nil {
		return nil, fmt.Errorf("%s: no configuration of an observation", name)
	}
	return o, nil
}

// append adds an endpoint that was read.
func (o *Observation) append(e Endpoint) error {
	switch {
	case e.Omitted < 0:
		return fmt.Errorf("omitted is %d", e.Omitted)
	case e.Positions < 0:
		return fmt.Errorf("positions is %d", e.Positions)
	case e.Useful < 0:
		return fmt.Errorf("useful is %d", e.Useful)
	case o.Done():
		return fmt.Errorf("an endpoint more than steps + 1, %d", o.Config.Steps+1)
	}
	if n := len(o.Endpoints); n > 0 && e.Time < o.Endpoints[n-1].Time {
		return fmt.Errorf("time_ns is %d, before the %d of the endpoint above", e.Time, o.Endpoints[n-1].Time)
	}
	o.Endpoints = append(o.Endpoints, e)
	return nil
}

// decodeLine reads an object that has these fields and no unknown ones.
func decodeLine(line []byte, v any, names ...string) error {
	var there map[string]json.RawMessage
	if err := json.Unmarshal(line, &there); err != nil {
		return err
	}
	for _, n := range names {
		if v, ok := there[n]; !ok || string(v) == "null" {
			return fmt.Errorf("%s is missing", n)
		}
	}
	in := json.NewDecoder(bytes.NewReader(line))
	in.DisallowUnknownFields()
	return in.Decode(v)
}

package workload_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"servesim/sim"

	"servesim/workload"
)

// serveGenClients reads the windows of all clients of an archive.
func serveGenClients(t *testing.T, path string) (clients []workload.ServeGenWindows) {
	t.Helper()
	for c, err := range (workload.ServeGen{Path: path}).Clients() {
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c.Arrivals())
	}
	return clients
}

// Recorded clients, window by window: bursty ones, whose sum has gaps that
// look exponential and an index of dispersion that does not. The figures wanted
// are medians of twelve windows, and as uncertain.
func TestServeGenRecordedClients(t *testing.T) {
	clients := serveGenClients(t, shared(t, "recordings/servegen_deepseek-r1_trace_csvs.tar.gz"))
	if len(clients) != 73 {
		t.Fatalf("%d clients, want 73", len(clients))
	}
	var cv, idc1, idc10 []float64
	for window := 0; window < len(clients[0].Windows); window += 2 {
		var active workload.Superpose
		total := 0.0
		for _, c := range clients {
			w := c.Windows[window]
			w.Start = 0
			if w.Pattern != workload.ServeGenIdle {
				total += w.Rate
				active = append(active, workload.ServeGenWindows{Windows: []workload.ServeGenWindow{w}})
			}
		}
		d := described(t, 1, active)
		near(t, "rate of a window", float64(d.Requests)/600, total, 0.01)
		cv, idc1, idc10 = append(cv, float64(d.GapCV)), append(idc1, float64(d.IDC1)), append(idc10, float64(d.IDC10))
	}
	median := func(x []float64) float64 {
		slices.Sort(x)
		return x[len(x)/2]
	}
	t.Logf("medians of %d windows: gap CV %.3f, IDC %.2f at 1 s, %.2f at 10 s", len(cv), median(cv), median(idc1), median(idc10))
	near(t, "gap CV", median(cv), 1.09, 0.1)
	near(t, "IDC(1 s)", median(idc1), 1.6, 0.2)
	near(t, "IDC(10 s)", median(idc10), 2.4, 0.3)
}

// All clients of a service, each with its windows and its lengths, as the parts
// of one workload: a client sends what its file says, less the request at the
// end of each window.
func TestServeGenAsWorkload(t *testing.T) {
	lengths := map[string]workload.ServeGenLengths{}
	for c, err := range (workload.ServeGen{Path: shared(t, "recordings/servegen_deepseek-r1_dataset_jsons.tar.gz")}).Lengths() {
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range c.Windows { // the first in which it sends
			if l, err := w.Lengths("input_tokens", "output_tokens"); err == nil {
				lengths[c.Name] = l
				break
			}
		}
	}
	m := workload.Merged{Seed: 1}
	var want []float64
	for c, err := range (workload.ServeGen{Path: shared(t, "recordings/servegen_deepseek-r1_trace_csvs.tar.gz")}).Clients() {
		if err != nil {
			t.Fatal(err)
		}
		l, ok := lengths[c.Name]
		if !ok {
			continue
		}
		a := c.Arrivals()
		a.Windows = a.Windows[:1]
		sent := 0.0
		for _, w := range a.Windows {
			sent += math.Ceil(w.Rate * 600)
		}
		m.Parts = append(m.Parts, workload.Part{Name: c.Name, Arrivals: a, Mix: []workload.Share{{Class: sim.Class{Name: c.Name}, Lengths: l}}})
		want = append(want, sent)
	}
	got := make([]float64, len(want))
	last, requests := sim.Time(0), 0
	for q, err := range m.Requests() {
		if err != nil {
			t.Fatal(err)
		}
		got[q.Class]++
		requests++
		last = q.Arrival
	}
	for i := range want {
		if got[i] > want[i] || got[i] < want[i]-1 {
			t.Errorf("client %s sent %v requests, its windows have %v", m.Parts[i].Name, got[i], want[i])
		}
	}
	if len(want) < 60 || requests < 3000 || last > sim.Time(10*time.Minute) {
		t.Errorf("%d clients, %d requests in %v", len(want), requests, last)
	}
}

func TestServeGenLengthErrors(t *testing.T) {
	w := workload.ServeGenLengthWindow{Start: 6 * time.Hour, Fields: []workload.ServeGenField{
		{Name: "in", Values: []workload.ServeGenValue{{Value: 30, Share: .5}, {Value: 4, Share: .25}}},
		{Name: "ratio", Values: []workload.ServeGenValue{{Value: .5, Share: 1}}}, {Name: "zero", Values: []workload.ServeGenValue{{Value: 0, Share: 1}}},
		{Name: "nothing"}, {Name: "no share", Values: []workload.ServeGenValue{{Value: 3}}},
	}}
	l, err := w.Lengths("in", "in")
	if want := (workload.Empirical{Values: []int{4, 30}, Weights: []float64{.25, .5}}); err != nil || fmt.Sprint(l.Prompt) != fmt.Sprint(want) || fmt.Sprint(l.Output) != fmt.Sprint(want) {
		t.Errorf("lengths %v, error %v", l, err)
	}
	for name, want := range map[string]string{
		"ratio":    "ratio has a value 0.5, want a whole number from 1 to 2147483647",
		"zero":     "zero has a value 0, want a whole number from 1 to 2147483647",
		"nothing":  "nothing: no Values in Empirical",
		"no share": "no share: Empirical.Weights sum to 0, want a finite sum above 0",
		"absent":   "no field absent",
	} {
		_, first := w.Lengths(name, "in")
		_, second := w.Lengths("in", name)
		for _, err := range []error{first, second} {
			if errText(err) != "workload: window at 6h0m0s: "+want {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		}
	}
	if _, err := w.Lengths("absent", "in"); errors.Unwrap(err) == nil {
		t.Error("the error hides what is wrong")
	}
}

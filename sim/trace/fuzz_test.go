package trace_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/sim/trace"
)

// FuzzRead: whatever is accepted is JSON whose numbers are those of the
// record, and survives a round trip.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{good, good + "\n\r\n" + edit(`"r"`, `"s"`), edit(`:180`, `:1.8e2`), edit(`:0`, `:-0.0000005`),
		edit(`"r"`, `"\ud83d\ude00"`), edit(`{"req`, `{"x":[{"a":"}"}],"req`), edit(`:35`, `:NaN`), "{}", "[", `{"a":"\`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := read(bytes.NewReader(data))
		if err == nil && len(got) == 0 {
			t.Fatal("neither a record nor an error")
		}
		lines := strings.Split(string(data), "\n")
		var text []byte
		for _, r := range got {
			if err := r.Validate(); err != nil {
				t.Fatalf("a record that was read is not valid: %v", err)
			}
			for strings.TrimSpace(lines[0]) == "" {
				lines = lines[1:]
			}
			compare(t, lines[0], r)
			lines = lines[1:]
			text = append(r.AppendJSON(text), '\n')
		}
		if len(got) == 0 {
			return
		}
		back, err := read(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%s\n%v", text, err)
		}
		if d := cmp.Diff(got, back); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	})
}

// compare checks a record against encoding/json's reading of its line.
func compare(t *testing.T, line string, r trace.Record) {
	t.Helper()
	var plain struct {
		ID     string      `json:"request_id"`
		Prompt int         `json:"prompt_tokens"`
		Send   json.Number `json:"client_send_ms"`
		Last   json.Number `json:"last_token_client_ms"`
	}
	if err := json.Unmarshal([]byte(line), &plain); err != nil {
		t.Fatalf("%q was read: %v", line, err)
	}
	if plain.ID != r.RequestID || plain.Prompt != r.PromptTokens {
		t.Fatalf("%q was read as %+v", line, r)
	}
	for _, c := range []struct {
		text json.Number
		ns   sim.Time
	}{{plain.Send, r.ClientSend}, {plain.Last, r.LastTokenClient}} {
		if len(c.text) > 50 {
			continue // big exponents take the big package long
		}
		if v, ok := new(big.Rat).SetString(c.text.String()); ok {
			off := v.Sub(v.Mul(v, big.NewRat(1e6, 1)), new(big.Rat).SetInt64(int64(c.ns)))
			if off.Abs(off).Cmp(big.NewRat(1, 2)) > 0 {
				t.Fatalf("%s ms was read as %d ns", c.text, c.ns)
			}
		}
	}
}

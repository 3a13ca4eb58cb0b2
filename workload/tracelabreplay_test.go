package workload_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/workload"
)

// replayed runs a recording in closed loop.
func replayed(t *testing.T, r workload.TraceLabReplay) (sessions map[int64][]sim.Completion, res sim.Result) {
	t.Helper()
	run, err := r.Begin()
	if err != nil {
		t.Fatal(err)
	}
	sessions = map[int64][]sim.Completion{}
	note := func(c sim.Completion) []sim.Request {
		sessions[c.Request.Origin.Session] = append(sessions[c.Request.Origin.Session], c)
		return nil
	}
	cfg := sim.Config{Replicas: []sim.Replica{busyReplica()}, FollowUp: workload.FollowUps(note, run.FollowUp)}
	if res, err = sim.Run(context.Background(), cfg, run.Requests()); err != nil {
		t.Fatal(err)
	}
	return sessions, res
}

// The public replay file: every session begins when it was recorded, every round
// follows the answer before it and its tools to the nanosecond, and finds what
// was said before.
func TestTraceLabReplay(t *testing.T) {
	rec := workload.TraceLab{Path: shared(t, "recordings/tracelab_replay_multi_session_large.csv.gz")}
	path := &sim.Path{NetworkIn: 20 * time.Millisecond, NetworkOut: 30 * time.Millisecond, Tail: time.Millisecond}
	sessions, res := replayed(t, workload.TraceLabReplay{Recording: rec, Source: 3, Path: path})
	n, found := int64(0), 0
	for s, err := range rec.Sessions() {
		if err != nil {
			t.Fatal(err)
		}
		ends := sessions[n]
		if len(ends) != len(s.Rounds) {
			t.Fatalf("session %d has %d rounds, want %d", n, len(ends), len(s.Rounds))
		}
		send := s.Arrival
		for i, c := range ends {
			want := s.Rounds[i]
			if c.Client.Send != send || c.Request.Prompt != want.Prompt() || c.Output != want.Output || c.Request.Origin != (sim.Origin{Source: 3, Session: n, Turn: i}) {
				t.Errorf("round %d of session %d is sent at %v, want %v: %+v", i, n, c.Client.Send, send, c.Request)
			}
			send = c.Client.Done.Add(want.Wait)
			if i > 0 {
				found += (ends[i-1].Request.Prompt + ends[i-1].Output - 1) / 16 * 16
			}
		}
		n++
	}
	if res.Completed != 303 || n != 48 || res.PrefixHits != int64(found) {
		t.Errorf("%d sessions, %d tokens found, want %d: %+v", n, res.PrefixHits, found, res)
	}
}

// Rounds that no engine takes are dropped and counted, and their tools take their
// time all the same.
func TestTraceLabReplayDropsRounds(t *testing.T) {
	var counts workload.Counts
	rec := traceLab("session_id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms\n" +
		"a,1000,0,0,10,0,500\na,1000,1,0,10,5,100\na,1000,2,0,0,5,30\na,1000,3,15,10,5,0\n" +
		"b,1200,0,0,10,5,0\nc,1200,0,0,0,0,0\n")
	rec.Counts = &counts
	sessions, res := replayed(t, workload.TraceLabReplay{Recording: rec})
	var got []string
	for n := range int64(3) {
		for i, c := range sessions[n] {
			after := c.Client.Send.Sub(0)
			if i > 0 {
				after = c.Client.Send.Sub(sessions[n][i-1].Client.Done)
			}
			got = append(got, fmt.Sprint(n, c.Request.Origin.Turn, after))
		}
	}
	if diff := cmp.Diff([]string{"0 1 500ms", "0 3 130ms", "1 0 200ms"}, got); diff != "" || res.Completed != 3 {
		t.Errorf("sessions, rounds and when they are sent (-want +got):\n%s", diff)
	}
	if counts.Read != 6 || counts.Emitted != 3 {
		t.Errorf("%+v", counts)
	}
}

// A session ends where its client gives up.
func TestTraceLabReplayGivesUp(t *testing.T) {
	rec := traceLab("session_id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms\n" +
		"a,0,0,0,10,5,100\na,0,1,15,10,500,100\na,0,2,525,10,5,0\n")
	sessions, res := replayed(t, workload.TraceLabReplay{Recording: rec, Patience: sim.Patience{Total: 100 * time.Millisecond}})
	if len(sessions[0]) != 2 || res.Aborted != 1 {
		t.Errorf("%d rounds, %+v", len(sessions[0]), res)
	}
}

func TestTraceLabReplayErrors(t *testing.T) {
	for want, r := range map[string]workload.TraceLabReplay{
		"workload: TraceLabReplay.Recording: TraceLab.BlockTokens is -1, want 0 to 2147483647": {Recording: workload.TraceLab{BlockTokens: -1}},
		"workload: TraceLabReplay.Source is -1, want from 0 to 32767":                          {Source: -1},
	} {
		if _, err := r.Begin(); errText(err) != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	run, err := workload.TraceLabReplay{Recording: traceLab("session_id\n")}.Begin()
	if err != nil {
		t.Fatal(err)
	}
	var errs []string
	for range 2 {
		for _, err := range run.Requests() {
			errs = append(errs, errText(err))
		}
	}
	if len(errs) != 2 || errs[1] != "workload: TraceLabRun.Requests is used twice" {
		t.Errorf("errors %q", errs)
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// recording returns the path of a recording in the data directory beside the
// repository and skips the test if there is none.
func recording(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("SERVESIM_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared")
	}
	path := filepath.Join(dir, "recordings", name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no recorded data: %v", err)
	}
	return path
}

// facts are the figures published with the recordings, as printed there: paths
// into the JSON object, and values, of which every printed digit counts.
type facts map[string]string

// arrivals of a recording: rate, gap CV, dispersion at 1, 10, 60 and 300 s, p99
// and max over mean at 1 s, p99 over mean at 10 and 60 s, empty seconds,
// autocorrelations of the counts of seconds 1, 10 and 60 apart and of the gaps.
// – is not published.
func (f facts) arrivals(values string) facts {
	return f.put(values, "workload.rate_per_s", "workload.gap_cv",
		"shape.arrivals.windows.0.idc", "shape.arrivals.windows.1.idc", "shape.arrivals.windows.2.idc", "shape.arrivals.windows.3.idc",
		"shape.arrivals.windows.0.p99_over_mean", "shape.arrivals.windows.0.max_over_mean",
		"shape.arrivals.windows.1.p99_over_mean", "shape.arrivals.windows.2.p99_over_mean", "shape.arrivals.empty_seconds",
		"shape.arrivals.count_acf_1s", "shape.arrivals.count_acf_10s", "shape.arrivals.count_acf_60s", "shape.arrivals.gap_acf")
}

// lengths of one side: mean, CV, min, p5, p25, p50, p75, p90, p95, p99, p99.9,
// max, most frequent and its share.
func (f facts) lengths(side, values string) facts {
	var paths []string
	for _, name := range strings.Fields("mean cv min p5 p25 p50 p75 p90 p95 p99 p99_9 max") {
		paths = append(paths, "workload."+side+"_"+name)
	}
	return f.put(values, append(paths, "shape.lengths."+side+"_mode", "shape.lengths."+side+"_mode_share")...)
}

// jointly are Pearson, that of logarithms, Spearman, eta², tokens in/out.
func (f facts) jointly(values string) facts {
	return f.put(values, "shape.lengths.pearson", "shape.lengths.pearson_log", "workload.prompt_output_spearman",
		"shape.lengths.eta_squared", "shape.lengths.prompt_tokens_per_output_token")
}

// deciles are mean outputs by tenth of the prompts.
func (f facts) deciles(values string) facts {
	var paths []string
	for i := range 10 {
		paths = append(paths, fmt.Sprintf("shape.lengths.output_by_prompt_decile.%d", i))
	}
	return f.put(values, paths...)
}

// sharing is blocks, distinct ones, found blocks and tokens, requests that find
// some and all, mean, p50 and p90 per request, hits of caches of 1,000, 10,000,
// 30,000, 50,000 and 100,000 blocks, blocks used once, references to the top
// 1 %, roots.
func (f facts) sharing(values string) facts {
	return f.put(values, "sharing.blocks", "sharing.distinct_blocks", "sharing.block_hits", "sharing.token_hits",
		"sharing.requests_with_hit", "sharing.requests_found_whole", "sharing.request_hit_mean", "sharing.request_hit_p50", "sharing.request_hit_p90",
		"sharing.limited.0.block_hits", "sharing.limited.1.block_hits", "sharing.limited.2.block_hits", "sharing.limited.3.block_hits", "sharing.limited.4.block_hits",
		"sharing.blocks_used_once", "sharing.references_to_top_1_percent", "sharing.roots")
}

// put notes values at paths, – being none.
func (f facts) put(values string, paths ...string) facts {
	for i, v := range strings.Fields(values) {
		if v != "–" {
			f[paths[i]] = v
		}
	}
	if len(strings.Fields(values)) > len(paths) {
		panic("more values than paths: " + values)
	}
	return f
}

// published are the figures of every recording that has some. The rate of the
// Mooncake synthetic one is printed by gaps, 3.906, that of the Azure code one
// by requests.
var published = map[string]facts{
	"AzureLLMInferenceTrace_code.csv.gz": facts{"rows.read": "8819", "rows.emitted": "8819", "workload.span_s": "3436"}.
		arrivals("2.567 13.15 13.2 71.6 164 138 10.8 26.1 6.06 3.80 73.4% 0.76 0.26 0.05 -0.003").
		lengths("prompt", "2048 0.96 3 75 578 1469 2744 5188 7303 7436 7437 7437 7436 2.3%").
		lengths("output", "27.9 2.15 6 6 9 13 24 55 90 252 825 1899 9 9.2%").
		jointly("0.00 -0.00 -0.02 0.005 73.4").
		put("0", "shape.lengths.output_of_one_token"),
	"AzureLLMInferenceTrace_conv.csv.gz": facts{"rows.read": "19366", "rows.emitted": "19366", "workload.span_s": "3502"}.
		arrivals("5.530 1.094 1.39 3.86 16.1 56.1 2.35 2.89 1.59 1.48 1.1% 0.22 0.20 0.15 0.06").
		lengths("prompt", "1155 0.96 2 181 396 1020 1189 2734 4083 4142 6179 14050 181 2.2%").
		lengths("output", "211 0.77 7 41 85 129 395 424 451 601 954 1000 396 2.2%").
		jointly("-0.11 0.09 0.07 0.631 5.5").
		deciles("151 85 101 106 327 412 412 329 114 74").
		put("0", "shape.lengths.output_of_one_token"),
	"mooncake_fast25_conversation_trace.jsonl.gz": facts{"rows.read": "12031", "rows.emitted": "12031", "workload.span_s": "3537"}.
		arrivals("3.401 3.03 7.9 2.1 2.9 7.3 5.0 8.2 1.66 1.21 66.7% -0.43 -0.15 0.33 -0.11").
		lengths("prompt", "12035 1.31 891 901 2306 6909 15367 27367 39550 85400 121301 126195").
		lengths("output", "343 0.73 1 10 157 350 472 597 698 1119 2000 2000 3 2.1%").
		jointly("0.07 0.05 0.07 0.010 35.1").
		put("292 – – – – – – – – 394", "shape.lengths.output_by_prompt_decile.0", "", "", "", "", "", "", "", "", "shape.lengths.output_by_prompt_decile.9").
		put("0.6%", "shape.lengths.output_of_one_token").
		put("90.2% 1180 10.20 1.10 18 28 0.15", "shape.arrivals.zero_gaps", "shape.arrivals.batches.batches", "shape.arrivals.batches.mean",
																										"shape.arrivals.batches.idc", "shape.arrivals.batches.p99", "shape.arrivals.batches.max", "shape.arrivals.batches.acf").
		put("3931 32.7% 42 123 474 42", "continuations.requests", "continuations.share", "continuations.gap_p10_s", "continuations.gap_p50_s", "continuations.gap_p90_s", "continuations.longest"). // published: 3,930
		sharing("288500 182790 0.366 0.374 0.9999 0.010 0.409 0.363 0.948 .045 .212 .326 .355 .364 75.9% 12.2% 1"),
	"mooncake_fast25_synthetic_trace.jsonl.gz": facts{"rows.read": "3993", "rows.emitted": "3993", "workload.span_s": "1022"}.
		arrivals("– 1.011 1.09 1.18 1.19 2.24 2.30 3.33 1.38 1.16 2.9% -0.01 -0.04 -0.01 0.02").
		lengths("prompt", "15325 1.20 13 22 277 11587 23175 38611 48905 66456 191373 191378").
		lengths("output", "149 1.19 1 2 11 69 250 389 519 768 813 893 2 5.8%").
		jointly("-0.37 -0.49 -0.52 0.366 102.8").
		deciles("225 292 317 116 101 139 132 107 39 25").
		put("0.1%", "shape.lengths.output_of_one_token").
		put("0.25602", "shape.arrivals.mean_gap_s"). // 1/3.906
		put("1336 33.5% 3.9 46 258 23", "continuations.requests", "continuations.share", "continuations.gap_p10_s", "continuations.gap_p50_s", "continuations.gap_p90_s", "continuations.longest").
		sharing("121877 43924 0.640 0.651 0.446 0.053 0.432 0 0.994 .084 .424 .624 .640 .640 58.5% 6.8% 2211"),
	"ragpulse_0_trace.jsonl.gz": facts{"rows.read": "7106", "rows.emitted": "7106", "rows.out_of_order": "1", "workload.span_s": "604603"}.
		arrivals("0.0118 3.06 1.01 1.07 1.73 3.82 – – 8.5 7.1 98.8% 0.00 0.01 0.01 0.17").
		lengths("prompt", "2944 0.34 1052 1055 2754 3140 3437 3958 4425 5438 6433 7712").
		lengths("output", "283 0.70 7 66 131 234 385 563 670 891 1182 2183 36 1.5%").
		jointly("0.43 0.49 0.42 0.260 10.4").
		put("142 – – – – – – – – 469", "shape.lengths.output_by_prompt_decile.0", "", "", "", "", "", "", "", "", "shape.lengths.output_by_prompt_decile.9").
		put("0", "shape.lengths.output_of_one_token").
		put("0.335 0.720 76.7%", "parts.found_leading", "parts.found_anywhere", "parts.top_first_part").
		put("3990 1.78 3 8 25 58.8% 23 40 89 1024", "sessions.sessions", "sessions.requests.mean", "sessions.requests.p90", "sessions.requests.p99",
			"sessions.requests.max", "sessions.of_one_request", "sessions.pauses_s.p25", "sessions.pauses_s.p50", "sessions.pauses_s.p75", "sessions.pauses_s.p95").
		put("47% 42.5% 9% 1.3% 0.2%", "parts.shares.0.tokens_share", "parts.shares.1.tokens_share", "parts.shares.2.tokens_share",
			"parts.shares.3.tokens_share", "parts.shares.4.tokens_share"),
	"etalon_sharegpt_8k_filtered_stats_llama2_tokenizer.csv.gz": facts{"rows.read": "30731", "rows.emitted": "30731"}.
		lengths("prompt", "2340 0.89 1 29 580 1730 3734 5696 6563 7434 7854 8141").
		lengths("output", "439 0.61 2 44 228 415 628 834 920 998 1021 1024").
		jointly("0.04 0.06 0.05 – 5.3").
		put("0", "shape.lengths.output_of_one_token"),
	"tracelab_replay_multi_session_large.csv.gz": {"rows.read": "303", "rows.emitted": "303"},
	"servegen_deepseek-r1_trace_csvs.tar.gz":     facts{}.put("73 16.0 32.7 42.5 .29 .53 .68 25 .75 30% 83% .92 1.03 1.7 5.8 2.3 4.9", clientPaths...),
	"servegen_mm-image_trace_csvs.tar.gz":        facts{}.put("35 9.5 12.9 13.3 .14 .56 .83 15 .65 42% 84% .95 1.38 3.3 6.4 2.2 2.3", clientPaths...),
}

var clientPaths = []string{"clients.clients", "clients.rate_per_s.mean", "clients.rate_per_s.p95", "clients.rate_per_s.max",
	"clients.top_1_share", "clients.top_5_share", "clients.top_10_share", "clients.clients_for_90_percent", "clients.gini",
	"clients.active_windows", "clients.gamma_windows", "clients.gap_cv.p25", "clients.gap_cv.p50", "clients.gap_cv.p75", "clients.gap_cv.p95",
	"clients.gap_cv_by_rate", "clients.peak_to_trough"}

// texts are figures in the text.
var texts = map[string][]string{
	"AzureLLMInferenceTrace_conv.csv.gz": {
		"19366 rows: 19366 requests, 0 dropped", "5.530 requests/s over 3502 s", "gap CV 1.094",
		"3501 1 1.385 2.350 2.893", "350 10 3.857", "58 60 16.13", "11 300 56.10",
		"prompt 1155 0.96 2 181 396 1020 1189 2734 4083 4142 6179 14050",
		"output 211.1 0.77 7 41 85 129 395 424 451 601 954 1000",
		"Spearman 0.07, eta² 0.631", "20 bins of the prompt", "Percentiles interpolate linearly",
	},
	"mooncake_fast25_synthetic_trace.jsonl.gz": {
		"0.640 of blocks, 0.651 of prompt tokens", "0.084 in 1000, 0.424 in 10000, 0.624 in 30000", "by gaps 3.906",
	},
	"ragpulse_0_trace.jsonl.gz": {
		"7106 requests, 0 dropped, 1 put in order", "0.335 leading parts that were anywhere", "3990, of requests mean 1.78",
	},
	"ragpulse_1_sys_prompt.jsonl.gz": {"ids 6898", "of an id 452.7 0.07 4 437 437 437 437 512"},
}

// Every file of the recordings is described, in JSON and in text.
func TestPublishedFigures(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(recording(t, ""), "*.gz"))
	if err != nil || len(files) != 15 {
		t.Fatalf("%d recordings: %v", len(files), err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			name := filepath.Base(path)
			args := []string{path}
			if !strings.HasPrefix(name, "mooncake") {
				args = []string{"-cache-blocks", "10000", path}
			}
			if strings.HasSuffix(name, "_dataset_jsons.tar.gz") {
				args = []string{"-rates", strings.Replace(path, "dataset_jsons", "trace_csvs", 1), path}
			}
			if strings.HasPrefix(name, "ragpulse_") && !strings.HasPrefix(name, "ragpulse_0") {
				args = []string{path}
			}
			checkFigures(t, published[name], texts[name], args...)
		})
	}
}

func checkFigures(t *testing.T, want facts, words []string, args ...string) {
	t.Helper()
	o, err := parse("describe", args, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	o.show = func(string) {}
	out, err := describe(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	var object, text bytes.Buffer
	if err := writeJSON(&object, out); err != nil {
		t.Fatal(err)
	}
	var got any
	if err := json.Unmarshal(object.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for path, printed := range want {
		v, err := lookup(got, path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if name, ok := v.(string); ok {
			if name != printed {
				t.Errorf("%s is %s, want %s", path, name, printed)
			}
			continue
		}
		value, ok := v.(float64)
		if !ok || !prints(value, printed) {
			t.Errorf("%s is %v, want %s", path, v, printed)
		}
	}
	if err := writeText(&text, out); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(text.String(), "\n")[1:] { // the first has the path
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	joined := strings.Join(strings.Fields(text.String()), " ")
	for _, w := range words {
		if !strings.Contains(joined, w) {
			t.Errorf("the text lacks %q:\n%s", w, &text)
		}
	}
}

// lookup follows a path of keys and indices.
func lookup(v any, path string) (any, error) {
	for _, part := range strings.Split(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(x) {
				return nil, fmt.Errorf("no element %s", part)
			}
			v = x[i]
		default:
			return nil, fmt.Errorf("nothing at %s", part)
		}
	}
	return v, nil
}

// prints reports whether a value rounds to what is printed. Some figures were
// rounded to one digit more before, and halves then up: 251.46 is printed as
// 252.
func prints(value float64, printed string) bool {
	number, percent := strings.CutSuffix(printed, "%")
	if percent {
		value *= 100
	}
	want, err := strconv.ParseFloat(number, 64)
	if err != nil {
		panic(err)
	}
	unit := 1.0
	if _, decimals, ok := strings.Cut(number, "."); ok {
		unit = math.Pow10(-len(decimals))
	}
	off := want - value
	return off >= -.5*unit*(1+1e-9) && off <= .55*unit*(1+1e-9)
}

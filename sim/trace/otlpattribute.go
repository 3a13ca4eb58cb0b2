package trace

import (
	"strconv"
	"strings"
	"time"
)

// Names of the attributes that are read back.
const (
	otlpEpoch     = "servesim.epoch_unix_nano"
	otlpRequestID = "gen_ai.request.id"
	otlpInput     = "gen_ai.usage.input_tokens"
	otlpOutput    = "gen_ai.usage.output_tokens"
	otlpCached    = "gen_ai.usage.cache_read.input_tokens"
	otlpClass     = "servesim.class"
	otlpRoute     = "servesim.route"
)

// otlpDurations name the durations of Details, otlpTokens its lists.
var (
	otlpDurations = [...]string{"servesim.clock_error_ns", "servesim.retrieval_ns", "servesim.prompt_assembly_ns", "servesim.client_tail_ns"}
	otlpTokens    = [...]string{"servesim.server_tokens_ns", "servesim.client_tokens_ns"}
)

// instantName is that of an instant of Record, without the unit.
func instantName(i int) string { return strings.TrimSuffix(fieldNames[firstOf+i], "_ms") }

// otlpNext separates items of a list.
func otlpNext(dst []byte) []byte {
	if dst[len(dst)-1] == '[' {
		return dst
	}
	return append(dst, ',')
}

// otlpKey begins an attribute, up to its value.
func otlpKey(dst []byte, key string) []byte { return otlpKeyOf(dst, "", key) }

func otlpKeyOf(dst []byte, space, key string) []byte {
	dst = append(append(append(otlpNext(dst), `{"key":"`...), space...), key...)
	return append(dst, `","value":{`...)
}

func otlpString(dst []byte, key, value string) []byte {
	return append(appendString(append(otlpKey(dst, key), `"stringValue":`...), value), `}}`...)
}

// otlpID is otlpString of a request's id, which is the serial number in a run.
func otlpID(dst []byte, key, id string, serial int64) []byte {
	if serial < 0 {
		return otlpString(dst, key, id)
	}
	dst = strconv.AppendInt(append(otlpKey(dst, key), `"stringValue":"`...), serial, 10)
	return append(dst, `"}}`...)
}

// otlpInt writes 64-bit integers as strings, as OTLP does.
func otlpInt(dst []byte, key string, value int64) []byte {
	dst = strconv.AppendInt(append(otlpKey(dst, key), `"intValue":"`...), value, 10)
	return append(dst, `"}}`...)
}

func otlpSeconds(dst []byte, key string, d time.Duration) []byte {
	return append(appendDecimal(append(otlpKey(dst, key), `"doubleValue":`...), int64(d), second), `}}`...)
}

// otlpLabel appends the truth.
func otlpLabel(dst []byte, l *Label) []byte {
	dst = append(otlpKey(dst, "servesim.label.causes"), `"arrayValue":{"values":[`...)
	for _, c := range l.Causes {
		dst = append(appendString(append(otlpNext(dst), `{"stringValue":`...), c), '}')
	}
	dst = append(dst, `]}}}`...)
	dst = otlpString(dst, "servesim.label.ttft_phase", l.TTFTPhase.String())
	dst = otlpString(dst, "servesim.label.e2e_phase", l.E2EPhase.String())
	for i, part := range ledgerParts(&l.Ledger) {
		if *part != 0 {
			dst = otlpKeyOf(dst, "servesim.label.ledger_ns.", ledgerNames[i])
			dst = append(strconv.AppendInt(append(dst, `"intValue":"`...), int64(*part), 10), `"}}`...)
		}
	}
	return dst
}

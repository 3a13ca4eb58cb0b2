package trace

import (
	"encoding/json"
	"strconv"
)

// AppendJSON appends the record as one line of a file, without the line end.
// Instants that are Unknown are left out. It does not validate.
func (r *Record) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"request_id":`...)
	dst = appendString(dst, r.RequestID)
	return r.appendRest(dst)
}

func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, err := json.Marshal(s)
			if err != nil {
				panic("trace: " + err.Error()) // strings always marshal
			}
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// appendRest appends everything behind the request_id.
func (r *Record) appendRest(dst []byte) []byte {
	dst = append(dst, `,"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(r.PromptTokens), 10)
	dst = append(dst, `,"output_tokens":`...)
	dst = strconv.AppendInt(dst, int64(r.OutputTokens), 10)
	for i, t := range r.instants() {
		if *t == Unknown {
			continue
		}
		dst = append(dst, `,"`...)
		dst = append(dst, fieldNames[firstOf+i]...)
		dst = append(dst, `":`...)
		dst = appendMillis(dst, *t)
	}
	return append(dst, '}')
}

package terminal

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Name keeps a name from a file on one line and within a column of that many
// runes: quoted if it would not print as it is, cut where it is longer, with an ellipsis.
func Name(name string, most int) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) }) {
		name = strconv.Quote(name)
	}
	if utf8.RuneCountInString(name) > most {
		name = string([]rune(name)[:most-1]) + "…"
	}
	return name
}

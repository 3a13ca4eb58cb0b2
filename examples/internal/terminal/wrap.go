// Package terminal lays out the text of the example programs.
package terminal

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Columns is the width that the programs write for.
const Columns = 80

// Wrap writes text behind label, broken between words so that no line is
// longer than Columns unless a word is. Further lines are indented by the width
// of the label. Errors of w are left to its owner: the programs write to
// buffers.
func Wrap(w io.Writer, label, text string) {
	indent := utf8.RuneCountInString(label)
	var b strings.Builder
	b.WriteString(label)
	column := indent
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case column == indent:
		case column+1+n > Columns:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	b.WriteByte('\n')
	io.WriteString(w, b.String())
}

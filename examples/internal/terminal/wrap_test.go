package terminal_test

import (
	"os"
	"strings"

	"servesim/examples/internal/terminal"
)

func ExampleWrap() {
	terminal.Wrap(os.Stdout, "label  ", strings.Repeat("seven77 ", 10))
	// Output:
	// label  seven77 seven77 seven77 seven77 seven77 seven77 seven77 seven77 seven77
	//        seven77
}

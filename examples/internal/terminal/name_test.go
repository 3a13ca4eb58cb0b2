package terminal_test

import (
	"fmt"

	"servesim/examples/internal/terminal"
)

func ExampleName() {
	fmt.Println(terminal.Name("käse", 4))
	fmt.Println(terminal.Name("käsebrot", 4))
	fmt.Println(terminal.Name("two\nlines", 20))
	// Output:
	// käse
	// käs…
	// "two\nlines"
}

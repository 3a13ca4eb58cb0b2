package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Parse reads the flags of a program that takes nothing else: any further
// argument is an error. See ParseFiles.
func Parse(flags *flag.FlagSet, usage string, args []string, messages io.Writer) error {
	if err := ParseFiles(flags, usage, args, messages); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return nil
}

// ParseFiles reads the flags and leaves what follows to flags.Args. With -h it
// writes usage and the flags to messages, and the error is flag.ErrHelp. Any
// other error names all flags, and nothing is written. The set must have been
// made with flag.ContinueOnError.
func ParseFiles(flags *flag.FlagSet, usage string, args []string, messages io.Writer) error {
	flags.SetOutput(io.Discard) // an error is reported once, by ExitOnError
	err := flags.Parse(args)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(messages, usage)
		flags.SetOutput(messages)
		flags.PrintDefaults()
		return err
	}
	var known []string
	flags.VisitAll(func(f *flag.Flag) { known = append(known, "-"+f.Name) })
	return fmt.Errorf("%w; flags are %s", err, strings.Join(known, ", "))
}

// Ints is the value of a flag that takes whole numbers between commas:
//
//	flags.Var((*command.Ints)(&list), "sizes", "`requests` of a batch")
type Ints []int

// String returns the numbers between commas.
func (l *Ints) String() string {
	texts := make([]string, len(*l))
	for i, n := range *l {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ",")
}

// Set replaces the list, unless a number is none.
func (l *Ints) Set(text string) error {
	var list []int
	for _, field := range strings.Split(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil {
			return fmt.Errorf("%q is not a whole number", field)
		}
		list = append(list, n)
	}
	*l = list
	return nil
}

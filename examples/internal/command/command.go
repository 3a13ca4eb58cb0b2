// Package command is what the example programs have in common: how they start
// and end, read flags and print JSON.
//
//	func main() { command.Main("bursts", run) }
//
// Package commandtest runs them in tests, package terminal lays out their text.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

// Program is a program without its process. What it finds goes to out, help and
// progress to messages.
type Program func(ctx context.Context, args []string, out, messages io.Writer) error

// Main runs a program with the arguments and the streams of the process. An
// interrupt (Ctrl-C) ends its context. Errors are handled by ExitOnError.
func Main(name string, run Program) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ExitOnError(name, run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// ExitOnError prints an error behind the name of the program and ends the
// process with status 1. It returns without one, and if the error says that
// help was asked for. Programs that need no context call it in place of Main,
// so that an interrupt ends them at once.
func ExitOnError(name string, err error) {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	os.Exit(1)
}

// WriteJSON writes v as one indented JSON object. Names from files stay as they
// are: <, > and & are not escaped.
func WriteJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

package command_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"servesim/examples/internal/command"
)

// The tests start this binary as a program, which does what its first argument
// says.
func TestMain(m *testing.M) {
	if os.Getenv("COMMAND_PROGRAM") != "" {
		command.Main("program", program)
		return
	}
	os.Exit(m.Run())
}

func program(ctx context.Context, args []string, out, messages io.Writer) error {
	switch args[0] {
	case "wait":
		fmt.Fprintln(out, "waiting")
		<-ctx.Done()
		return ctx.Err()
	case "fail":
		return fmt.Errorf("cannot %v", args[1:])
	case "help":
		fmt.Fprintln(messages, "Usage: program")
		return fmt.Errorf("asked: %w", flag.ErrHelp)
	}
	fmt.Fprintln(out, "done")
	return nil
}

// start prepares a run of the program.
func start(args ...string) (cmd *exec.Cmd, messages *bytes.Buffer) {
	cmd = exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "COMMAND_PROGRAM=1")
	messages = new(bytes.Buffer)
	cmd.Stderr = messages
	return cmd, messages
}

func TestProcess(t *testing.T) {
	for _, c := range []struct {
		args          []string
		out, messages string
		status        int
	}{
		{[]string{"work"}, "done\n", "", 0},
		{[]string{"help"}, "", "Usage: program\n", 0},
		{[]string{"fail", "50%d"}, "", "program: cannot [50%d]\n", 1},
	} {
		cmd, messages := start(c.args...)
		out, err := cmd.Output()
		status := 0
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			status = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if string(out) != c.out || messages.String() != c.messages || status != c.status {
			t.Errorf("%v: printed %q, messages %q, status %d; want %+v", c.args, out, messages, status, c)
		}
	}
}

// An interrupt ends the context; the program ends by itself and says why.
func TestInterrupt(t *testing.T) {
	cmd, messages := start("wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("waiting\n"))); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if status := cmd.ProcessState.ExitCode(); status != 1 || messages.String() != "program: context canceled\n" {
		t.Errorf("%v, messages %q", cmd.ProcessState, messages)
	}
}

func ExampleWriteJSON() {
	command.WriteJSON(os.Stdout, struct {
		File string `json:"file"`
	}{"a&b.csv"})
	// Output:
	// {
	//   "file": "a&b.csv"
	// }
}

func ExampleParse() {
	sizes := []int{1, 8}
	newFlags := func() *flag.FlagSet {
		flags := flag.NewFlagSet("program", flag.ContinueOnError)
		flags.Var((*command.Ints)(&sizes), "sizes", "`requests` of a batch")
		flags.Bool("json", false, "print JSON")
		return flags
	}
	for _, args := range [][]string{{"-h"}, {"-size", "1"}, {"-sizes", "1,x"}, {"-json", "file"}, {"-sizes", "2, 16,-1"}} {
		err := command.Parse(newFlags(), "Usage: program [flags]\n\n", args, os.Stdout)
		fmt.Println(strings.Join(args, " "), "→", err, sizes)
	}
	// Output:
	// Usage: program [flags]
	//
	//   -json
	//     	print JSON
	//   -sizes requests
	//     	requests of a batch (default 1,8)
	// -h → flag: help requested [1 8]
	// -size 1 → flag provided but not defined: -size; flags are -json, -sizes [1 8]
	// -sizes 1,x → invalid value "1,x" for flag -sizes: "x" is not a whole number; flags are -json, -sizes [1 8]
	// -json file → unexpected argument "file" [1 8]
	// -sizes 2, 16,-1 → <nil> [2 16 -1]
}

func ExampleParseFiles() {
	flags := flag.NewFlagSet("program", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "print JSON")
	err := command.ParseFiles(flags, "Usage: program [flags] [file]\n\n", []string{"-json", "a.csv", "b.csv"}, os.Stderr)
	fmt.Println(*asJSON, flags.Args(), err)
	// Output: true [a.csv b.csv] <nil>
}

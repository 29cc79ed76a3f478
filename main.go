// Command relapse replays documented production incidents against the real
// parts that failed, proves that they happen again, and proves that each fix
// holds when new faults are thrown at it.
//
// Each subcommand is one file of this package.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes. They tell a system that failed from a rig that did, so that a
// missing image never reads as a reproduction.
const (
	exitAsExpected = 0 // the incident came out as its file says
	exitNot        = 1 // it did not
	exitUnknown    = 2 // the plays say nothing about the system
	exitRig        = 3 // no engine, no image, no program: the rig failed
	exitBadInput   = 4 // a file or a flag is wrong; nothing was started
)

// exitError carries an exit code to main. A nil err ends quietly: what there
// was to say has been said.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// commands are filled by the files of the subcommands.
var commands []func() *cobra.Command

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	enterNamespaces = runAgain
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	root := &cobra.Command{
		Use:           "relapse",
		Short:         "Replay documented production incidents and prove that their fixes hold",
		Version:       build(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("relapse {{.Version}}\n")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return &exitError{exitBadInput, fmt.Errorf("%w\nsee: %s --help", err, c.CommandPath())}
	})
	for _, command := range commands {
		root.AddCommand(command())
	}
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitAsExpected
	}
	var exit *exitError
	if !errors.As(err, &exit) {
		// What cobra itself refuses: an unknown command, a missing argument.
		exit = &exitError{exitBadInput, err}
	}
	if exit.err != nil {
		fmt.Fprintln(os.Stderr, "relapse:", exit.err)
	}
	return exit.code
}

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

	"relapse/reports"
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
	ctx, stop := untilSignalled(context.Background())
	enterNamespaces = runAgain
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// untilSignalled gives a context that ends with the first signal that asks the tool
// to end: it then undoes faults, stops nodes and writes its record. A terminal that
// is closed asks so too, unless whoever started the tool wanted otherwise, as nohup
// does. Who presses Ctrl-C once more does not want to wait: the tool dies at once,
// and the watchdog removes what is left.
func untilSignalled(parent context.Context) (ctx context.Context, stop func()) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop = signal.NotifyContext(parent, signals...)
	context.AfterFunc(ctx, func() { signal.Reset(os.Interrupt) })
	return ctx, stop
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
		// An error may quote what a node printed.
		fmt.Fprintln(os.Stderr, "relapse:", reports.Printable(exit.err.Error()))
	}
	return exit.code
}

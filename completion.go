package main

import (
	"strings"

	"github.com/spf13/cobra"

	"relapse/faults"
	"relapse/replays"
	"relapse/reports"
)

// completer gives what a shell may complete an argument or a flag to.
type completer = cobra.CompletionFunc

// completeFlag has a flag completed; a flag that is none is a mistake of the
// programmer.
func completeFlag(c *cobra.Command, flag string, complete completer) {
	if err := c.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err)
	}
}

// completeIncidents gives the library's incidents, until so many have been named;
// a shell offers folders where none of them fits.
func completeIncidents(most int) completer {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return replays.LibraryNames(), cobra.ShellCompDirectiveDefault
	}
}

// completeArm gives the arms of the incident that stands on the command line.
func completeArm(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	inc, err := replays.Find(args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return inc.Arms(), cobra.ShellCompDirectiveNoFileComp
}

// completeKind gives the kinds of fault.
func completeKind(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var kinds []string
	for _, k := range faults.Kinds() {
		if len(args) == 0 {
			kinds = append(kinds, cobra.CompletionWithDesc(k.Name, k.Summary))
		}
	}
	return kinds, cobra.ShellCompDirectiveNoFileComp
}

// completeFormats gives the formats of a report.
func completeFormats(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, f := range reports.Formats() {
		names = append(names, cobra.CompletionWithDesc(f.Name, f.Summary))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// listOf completes the last of a list with commas between.
func listOf(complete completer) completer {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndex(typed, ",")+1]
		one, directive := complete(c, args, typed[len(before):])
		for n := range one {
			one[n] = before + one[n]
		}
		return one, directive | cobra.ShellCompDirectiveNoSpace
	}
}

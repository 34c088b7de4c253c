package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// completeForShells adds the command that prints completions. For a shell that it
// does not know, or none, cobra's prints its help and calls that success: a file of
// completions would then hold the help.
func completeForShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Args = cobra.ArbitraryArgs
		c.RunE = func(_ *cobra.Command, args []string) error {
			const want = "want bash, fish, powershell or zsh, as in spectap completion bash"
			if len(args) == 0 {
				return exitError{exitUsage, errors.New("no shell is named: " + want)}
			}
			return exitError{exitUsage, fmt.Errorf("there are no completions for %q: %s", args[0], want)}
		}
	}
}

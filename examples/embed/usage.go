package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

const usage = `usage: embed

Embed is a bot in the terminal: type a line, and the agent answers. Ctrl-C ends it.
`

// init answers -h and refuses arguments, so that main shows what a bot has and nothing else. The
// arguments of a test are not the bot's.
func init() { //nolint:gochecknoinits // main shows what a bot has and nothing else
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	switch {
	case len(args) == 0 || strings.HasPrefix(args[0], "-test."):
	case slices.Contains([]string{"-h", "-help", "--help"}, args[0]):
		fmt.Fprint(os.Stderr, usage)
		os.Exit(0)
	default:
		fmt.Fprintf(os.Stderr, "embed: unexpected argument %q\n%s", args[0], usage)
		os.Exit(2)
	}
}

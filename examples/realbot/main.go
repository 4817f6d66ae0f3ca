// Realbot is a bot in the terminal on a real model: of OpenAI, of a server that speaks like it, or
// of Anthropic. Its agent main talks to people and gives work to the agent researcher, which has
// the tools of an MCP server.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
)

const usage = `usage: realbot [-base URL] [-model NAME] [-mcp COMMAND] [-state DIR] [-trace]

Realbot is a bot in the terminal: type a line, and the agent answers while you watch. It gives work
to a second agent, the researcher. Ctrl-C, or the end of the input, ends it: on Ctrl-C answers under
way have ten seconds to finish, and a second Ctrl-C ends it at once.

One environment variable says whose model it is, and has the key:

  OPENAI_API_KEY      of OpenAI, or of a server that speaks like it. A server that wants no key is
                      given any
  ANTHROPIC_API_KEY   of Anthropic

  -base URL       where the server is, such as http://localhost:11434/v1. One that speaks like
                  OpenAI is called by Chat Completions. Without -base it is the provider's own
  -model NAME     the name of the model at the provider; default: gpt-5 or claude-opus-5
  -mcp COMMAND    a program with its arguments, separated by spaces, that is an MCP server over
                  stdio. The researcher has its tools
  -state DIR      keeps the chat in DIR; kill -9 the program at any moment, run it again, and it
                  goes on. Without -state it is forgotten at the end
  -trace          writes the spans of OpenTelemetry to stdout as JSON, each on a line of its own
                  between the answers; grep -v '^{"Name":' leaves the answers
`

func main() {
	o := options{openai: os.Getenv("OPENAI_API_KEY"), anthropic: os.Getenv("ANTHROPIC_API_KEY")}
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage) }
	flag.StringVar(&o.base, "base", "", "")
	flag.StringVar(&o.model, "model", "", "")
	flag.StringVar(&o.mcp, "mcp", "", "")
	flag.StringVar(&o.state, "state", "", "")
	flag.BoolVar(&o.trace, "trace", false, "")
	if flag.Parse(); flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "realbot: unexpected argument %q\n%s", flag.Arg(0), usage)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends the program at once
	if err := run(ctx, o, os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// Policyonly uses package policy without the packages above it. It asks whether the main agent may
// spawn two others, and prints what they would run with, or why they may not be spawned.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

const usage = `usage: policyonly

Policyonly asks package policy whether an agent may spawn two others, and prints why not.
`

func main() {
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage) }
	if flag.Parse(); flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "policyonly: unexpected argument %q\n%s", flag.Arg(0), usage)
		os.Exit(2)
	}
	show()
}

func show() {
	rules := policy.Rules{
		Subagents: policy.Subagents{MaxSpawnDepth: 2, Model: "anthropic/claude-haiku-4-5"},
		Agents: []policy.Agent{
			{ID: "main", Subagents: policy.Subagents{AllowAgents: []string{"research"}}},
			{ID: "research"},
			{ID: "ops"},
		},
	}
	caller := policy.Caller{
		Key:       session.Must(session.MainKey("main")),
		Children:  3,
		Delegable: []string{"read", "exec", "sessions_spawn"},
	}

	for _, target := range []string{"research", "ops"} {
		grant, err := rules.Admit(caller, policy.Request{Agent: target})
		if r, ok := errors.AsType[*policy.Refusal](err); ok {
			fmt.Println(r)
			fmt.Println("change", r.Field, "to allow it")
			continue
		}
		fmt.Println(target, "runs as", grant.Role, "on", grant.Model, "with", grant.Tools)
	}
}

// Keys uses package session alone: it prints what the key of a session says about it.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/offshoot-sdk/offshoot/session"
)

const usage = `usage: keys

Keys prints what the key of a session says about it, for five keys.
`

func main() {
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage) }
	if flag.Parse(); flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "keys: unexpected argument %q\n%s", flag.Arg(0), usage)
		os.Exit(2)
	}
	show()
}

func show() {
	for _, s := range []string{
		"agent:main:main",
		"agent:main:telegram:direct:4711",
		"agent:main:spawn:abc123",
		"agent:ops:subagent:6f1c2a52-7d1c-4f7e-9a30-0d6f5b0e3c11:subagent:0b6c1c1e-2e0f-4f6e-8a53-4f6c2a527d1c",
		"agent:main:subagent:",
	} {
		key, err := session.Parse(s)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(key.Agent(), key.Kind(), key.Depth(), key.IsSubagent())
	}
}

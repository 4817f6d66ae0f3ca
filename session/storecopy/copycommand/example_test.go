package copycommand_test

import (
	"context"
	"fmt"
	"os"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/session/storecopy/copycommand"
)

// The main of a command passes its arguments on, and ends with the code.
func Example() {
	command := copycommand.Command{
		Engine: "an engine", Schemes: []string{"engine"}, OpenDir: dirstore.Open,
		Full: "Name another -schema, or a new directory.",
		Open: func(context.Context, string) (*session.Store, error) {
			return session.NewMemory(), nil // that of the engine
		},
	}
	args := []string{"-from", "engine://a", "-to", "engine://b"} // os.Args[1:]
	code := command.Run(context.Background(), args, os.Stdout, os.Stderr)
	fmt.Println(code) // os.Exit(code)
	// Output:
	// everything is the same: 0 logs with 0 entries, 0 transcripts with 0 lines (0 archived), 0 files of 0 bytes
	// 0
}

package dirstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// A child is this test binary. Its environment says which directory it opens, and which tree it
// appends to.
const (
	envChildDir  = "OFFSHOOT_DIRSTORE_DIR"
	envChildTree = "OFFSHOOT_DIRSTORE_TREE"
)

func TestMain(m *testing.M) {
	dir := os.Getenv(envChildDir)
	if dir == "" {
		m.Run()
		return
	}
	root, err := session.ParseRoot(os.Getenv(envChildTree))
	if err == nil {
		err = runChild(dir, root, os.Stdin, os.Stdout)
	}
	if err != nil {
		panic(err)
	}
}

// The answers of a child.
const (
	answerOpen   = "open"
	answerLocked = "locked"  // Open returned ErrLocked
	answerKept   = "kept"    // an append was acknowledged
	answerLost   = "lost"    // an append returned ErrSync
	answerError  = "error: " // another error, whose text follows
)

// runChild opens a directory and appends to a tree with each line of in. It answers with a line.
func runChild(dir string, root session.Key, in io.Reader, out io.Writer) error {
	answer := func(yes string, err error) {
		switch {
		case err == nil:
		case errors.Is(err, dirstore.ErrLocked):
			yes = answerLocked
		case errors.Is(err, session.ErrSync):
			yes = answerLost
		default:
			yes = answerError + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Fprintln(out, yes)
	}
	ctx := context.Background() // a child lives until it is killed or its input ends
	s, err := dirstore.Open(dir)
	if err != nil {
		answer("", err)
		return nil
	}
	last := session.Seq(0)
	for h, err := range s.Journal.Roots(ctx, session.RootQuery{}) {
		if err != nil {
			return err
		}
		if h.Root == root {
			last = h.Last
		}
	}
	answer(answerOpen, nil)
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		at, err := s.Journal.Append(ctx, root, last, batchOf(testTime, false, lines.Text()))
		if err == nil {
			last = at
		}
		answer(answerKept, err)
	}
	return errors.Join(lines.Err(), s.Close())
}

// A childProcess is a process that has opened a directory, or has tried to.
type childProcess struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
	kept  []string // the texts of the acknowledged appends
}

// startChild starts a child and returns its answer to the opening. The test kills the child at its
// end.
func startChild(t *testing.T, dir string, root session.Key) (c *childProcess, answer string) {
	t.Helper()
	c = &childProcess{cmd: exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")}
	c.cmd.Env = append(os.Environ(), envChildDir+"="+dir, envChildTree+"="+root.String(),
		"GORACE=atexit_sleep_ms=0")
	c.cmd.Stderr = os.Stderr
	var err error
	c.in, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())
	t.Cleanup(c.kill)
	c.lines = bufio.NewScanner(out)
	return c, c.read(t)
}

// kill ends the child with SIGKILL and waits for its end.
func (c *childProcess) kill() {
	if c.cmd.ProcessState == nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	}
}

// read returns the next answer.
func (c *childProcess) read(t *testing.T) string {
	t.Helper()
	require.True(t, c.lines.Scan(), "the child has ended: %v", c.lines.Err())
	return c.lines.Text()
}

// append has the child append a text, and returns its answer.
func (c *childProcess) append(t *testing.T, text string) string {
	t.Helper()
	c.send(t, text)
	answer := c.read(t)
	if answer == answerKept {
		c.kept = append(c.kept, text)
	}
	return answer
}

// send has the child append a text. The caller reads the answer.
func (c *childProcess) send(t *testing.T, text string) {
	t.Helper()
	_, err := fmt.Fprintln(c.in, text)
	require.NoError(t, err)
}

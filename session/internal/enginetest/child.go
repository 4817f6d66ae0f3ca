//go:build unix

package enginetest

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// childEnv makes a test binary a child: its value is the name of a role and the arguments of that,
// one a line.
const childEnv = "OFFSHOOT_TEST_CHILD"

// A Role is what a child does. It may go on without an end: the parent kills it.
type Role func(ctx context.Context, args []string)

// Main is a TestMain. It returns the code with which the process ends: that of the tests, after
// which it calls end, or that of a child. The roles of the Engine are there beside those of the
// caller.
func Main(
	ctx context.Context, m *testing.M, e Engine, own map[string]Role, end func(),
) (code int) {
	text := os.Getenv(childEnv)
	if text == "" {
		defer end()
		waitMoreAtOnce()
		return m.Run()
	}
	roles := map[string]Role{"worker": e.worker, "bot": e.bot, "moved": e.movedBot}
	maps.Copy(roles, own)
	args := strings.Split(text, "\n")
	roles[args[0]](ctx, args[1:])
	return 0
}

// waitMoreAtOnce has more parallel tests run at a time than the machine has processors, unless the
// command line says how many: they mostly wait, for leases that lapse and for servers.
func waitMoreAtOnce() {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		_ = flag.Set("test.parallel", strconv.Itoa(waitersPerProcessor*runtime.GOMAXPROCS(0)))
	}
}

// waitersPerProcessor is how many tests that wait a processor has time for.
const waitersPerProcessor = 3

var saying sync.Mutex

// Say tells the parent of a child something, as one line.
func Say(format string, args ...any) {
	saying.Lock()
	defer saying.Unlock()
	fmt.Printf(format+"\n", args...) //nolint:forbidigo // that of a child process
}

// maxSaid is the longest line that a child says, in bytes.
const maxSaid = 8 << 20

// A Process is a child.
type Process struct {
	*exec.Cmd
	in    io.Writer
	ended chan struct{}
	kill  sync.Once
}

// Command returns the command of a child that the caller starts. The end of ctx kills it.
func Command(ctx context.Context, role string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(),
		childEnv+"="+strings.Join(append([]string{role}, args...), "\n"))
	return cmd
}

// Start starts a child, which is killed at the end of the test. hear is called with each line that
// it says.
func Start(t testing.TB, hear func(line string), role string, args ...string) *Process {
	t.Helper()
	return start(t, hear, nil, role, args...)
}

// start starts a child that logs to a writer, which may be nil.
func start(
	t testing.TB, hear func(line string), log io.Writer, role string, args ...string,
) *Process {
	t.Helper()
	// Not that of the test, which ends before its cleanups do.
	ctx := context.WithoutCancel(t.Context())
	p := &Process{Cmd: Command(ctx, role, args...), ended: make(chan struct{})}
	p.Stderr = log
	out, err := p.StdoutPipe()
	must(t, "stdout of a child", err)
	p.in, err = p.StdinPipe()
	must(t, "stdin of a child", err)
	must(t, "start a child", p.Cmd.Start())
	go func() {
		defer close(p.ended)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, maxSaid)
		for lines.Scan() {
			hear(lines.Text())
		}
	}()
	t.Cleanup(p.Kill)
	return p
}

// Tell writes a line to the standard input of a child.
func (p *Process) Tell(line string) { _, _ = fmt.Fprintln(p.in, line) }

// Kill kills a child with SIGKILL, and waits until it is gone and all that it has said was heard.
func (p *Process) Kill() {
	p.kill.Do(func() {
		_ = p.Process.Kill()
		<-p.ended
		_ = p.Wait()
	})
}

// Stop has a child stand still until goOn is called. All its threads stand still when Stop returns,
// which a signal alone does not say.
func (p *Process) Stop(t testing.TB) (goOn func()) {
	t.Helper()
	must(t, "stop", p.Process.Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	_, err := syscall.Wait4(p.Process.Pid, &status, syscall.WUNTRACED, nil)
	for errors.Is(err, syscall.EINTR) {
		_, err = syscall.Wait4(p.Process.Pid, &status, syscall.WUNTRACED, nil)
	}
	must(t, "wait until it stands still", err)
	check(t, status.Stopped(), "it has ended and does not stand still: %v", status)
	return func() {
		t.Helper()
		must(t, "go on", p.Process.Signal(syscall.SIGCONT))
	}
}

// Ended is closed when a child says no more.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Rounds is how often a test kills: more often if it is asked to.
func Rounds(usual, long int) int {
	switch {
	case os.Getenv("OFFSHOOT_KILLS") != "":
		return long
	case testing.Short():
		return 1
	}
	return usual
}

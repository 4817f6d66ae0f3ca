package examples_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unicode/utf8"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A screen is the end of a terminal at which a person sits.
type screen struct {
	file  *os.File
	cmd   *exec.Cmd
	mu    sync.Mutex
	shown bytes.Buffer
	more  chan struct{} // has an element when there is more to see; closed at the end
}

// sit runs a command in a terminal of its own, in the foreground, so that what is typed is its
// input, and Ctrl-C is what the kernel makes of it.
func sit(t *testing.T, cmd *exec.Cmd, columns uint16) *screen {
	t.Helper()
	file, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		t.Skipf("this system has no terminals: %v", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	var locked, number int32
	control(t, file, syscall.TIOCSPTLCK, unsafe.Pointer(&locked))
	control(t, file, syscall.TIOCGPTN, unsafe.Pointer(&number))
	size := struct{ rows, columns, x, y uint16 }{50, columns, 0, 0}
	control(t, file, syscall.TIOCSWINSZ, unsafe.Pointer(&size))
	name := fmt.Sprintf("/dev/pts/%d", number)
	terminal, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == "CI" || name == "NO_COLOR" || name == "TERM"
	})
	cmd.Env = append(cmd.Env, "TERM=xterm")
	require.NoError(t, cmd.Start())
	require.NoError(t, terminal.Close())
	s := &screen{file: file, cmd: cmd, more: make(chan struct{}, 1)}
	go s.watch()
	return s
}

// control is an ioctl.
func control(t *testing.T, file *os.File, request uintptr, arg unsafe.Pointer) {
	t.Helper()
	conn, err := file.SyscallConn()
	require.NoError(t, err)
	var errno syscall.Errno
	require.NoError(t, conn.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(arg))
	}))
	require.Zero(t, errno, "ioctl %#x", request)
}

// watch reads until the last program has left the terminal.
func (s *screen) watch() {
	defer close(s.more)
	buf := make([]byte, 4096)
	for {
		n, err := s.file.Read(buf)
		s.mu.Lock()
		s.shown.Write(buf[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
		select {
		case s.more <- struct{}{}:
		default:
		}
	}
}

// text returns what has been shown so far.
func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown.String()
}

// awaitText returns when a text is on the screen.
func (s *screen) awaitText(t *testing.T, want string) {
	t.Helper()
	for !strings.Contains(s.text(), want) {
		_, open := <-s.more
		require.True(t, open || strings.Contains(s.text(), want),
			"the program has ended without %q:\n%s", want, s.text())
	}
}

// awaitEnd returns the exit status of the program and all that it has shown. The status is -1 if a
// signal has ended the program.
func (s *screen) awaitEnd(t *testing.T) (code int, shown string) {
	t.Helper()
	err := s.cmd.Wait()
	if _, exited := errors.AsType[*exec.ExitError](err); !exited {
		require.NoError(t, err)
	}
	for range s.more { // until it is closed
	}
	return s.cmd.ProcessState.ExitCode(), s.text()
}

// A1: Ctrl-C ends every program, although its terminal stays open, and the program itself says with
// which status.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	for _, p := range programs {
		t.Run(strings.Join(append([]string{p.folder}, p.args...), " "), func(t *testing.T) {
			t.Parallel()
			s := sit(t, command(t, p.folder, p.args...), 100)
			_, err := io.WriteString(s.file, p.typed)
			require.NoError(t, err)
			if p.ready != "" {
				s.awaitText(t, p.ready)
				_, err = io.WriteString(s.file, "\x03")
				require.NoError(t, err)
			}
			code, shown := s.awaitEnd(t)
			assert.Contains(t, p.codes, code, shown)
			assert.NotContains(t, shown, "goroutine ")
		})
	}
}

// columns is the width of the terminal that many people have.
const columns = 80

// A8: the quickstart at a person's pace has every row in the section that it belongs to, as it
// has in a file.
func TestQuickstartInATerminal(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args     []string
		sections map[string][]string // by number: the first row and the last one
		lines    int
	}{
		{
			nil, map[string][]string{
				"2": {`main +asked +“Plan a weekend`, `main +says +“Ghent, Mira\.`},
			}, 100,
		},
		{
			[]string{"-all"}, map[string][]string{
				"2": {`main +asked +“Plan a weekend`, `main +delivered +to the person`},
				"5": {`main +asked +“And the same for Porto`, `main +ready +for the next request`},
				"6": {`main +asked +“Then Ljubljana`, `main +delivered +to the person`},
			}, 1000,
		},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			t.Parallel()
			code, shown := sit(t, command(t, "quickstart", test.args...), columns).awaitEnd(t)
			shown = regexp.MustCompile("\x1b\\[[0-9]*m|\r").ReplaceAllString(shown, "")
			require.Zero(t, code, shown)
			assert.LessOrEqual(t, strings.Count(shown, "\n"), test.lines)
			for line := range strings.Lines(shown) {
				width := utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))
				assert.LessOrEqual(t, width, columns, line)
			}
			sections := sectionsOf(shown)
			for number, rows := range sections {
				want := test.sections[number]
				require.NotNil(t, want, "section %s has rows: %q", number, rows)
				assert.Regexp(t, "^"+want[0], rows[0], "section %s", number)
				assert.Regexp(t, "^"+want[1], rows[len(rows)-1], "section %s", number)
			}
			assert.Len(t, sections, len(test.sections))
		})
	}
}

// sectionsOf returns the rows of events, without their times, by the number of their section.
func sectionsOf(shown string) map[string][]string {
	title := regexp.MustCompile(`^(\d)  \S.*─$`)
	row := regexp.MustCompile(`^ +\d+\.\d\d +(\S.*)$`)
	sections, number := make(map[string][]string), ""
	for line := range strings.SplitSeq(shown, "\n") {
		if m := title.FindStringSubmatch(line); m != nil {
			number = m[1]
		} else if m := row.FindStringSubmatch(line); m != nil {
			sections[number] = append(sections[number], m[1])
		}
	}
	return sections
}

package mcp

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/offshoot-sdk/offshoot/agent/provider"
)

// patience is how long a child process may take to end when its stdin is closed, then after
// SIGTERM, and then how long its own children may keep its stderr open.
const patience = 2 * time.Second

// A command is a child process that speaks the protocol over stdin and stdout, one message a line.
// It is the CommandTransport of the SDK, but that a message that is too large costs its call alone.
type command struct {
	cmd     *exec.Cmd
	log     *slog.Logger
	process atomic.Pointer[os.Process]
	ended   chan struct{} // closed when the process has; made before it starts
	waitErr error         // of the process, when ended is closed
}

// kill kills the process, if there is one.
func (c *command) kill() {
	if p := c.process.Load(); p != nil {
		_ = p.Kill()
	}
}

// end ends the process at once, if there is one, and waits for it.
func (c *command) end() {
	if c.process.Load() != nil {
		c.kill()
		<-c.ended
	}
}

// exited returns how the process has ended by itself in failure, or "".
func (c *command) exited() string {
	select {
	case <-c.ended:
		return exitOf(c.cmd.ProcessState)
	default:
		return ""
	}
}

// Connect starts the child process. The connection ends it, and ends with it: what a process that
// it has left behind writes to its stdout later is not read.
func (c *command) Connect(ctx context.Context) (sdk.Connection, error) {
	stdout, out, err := os.Pipe() // not that of cmd, which its Wait closes with what was not read
	if err != nil {
		return nil, err
	}
	c.cmd.Stdout = out
	stdin, err := c.cmd.StdinPipe()
	if err == nil {
		err = c.cmd.Start()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return nil, errors.Join(err, stdout.Close())
	}
	c.process.Store(c.cmd.Process)
	go func() { // ends with the process, which end, or Close of the connection, ends
		c.waitErr = c.cmd.Wait()
		_ = stdout.SetReadDeadline(time.Now().Add(restWithin))
		close(c.ended)
	}()
	if ctx.Err() != nil {
		c.kill()
	}
	in := &messages{from: bufio.NewReaderSize(stdout, 64<<10), limit: MaxMessage, log: c.log}
	return (&sdk.IOTransport{
		Reader: readCloser{in, stdout}, Writer: &childInput{stdin, c},
		MaxLineLength: 2 * MaxMessage,
	}).Connect(ctx)
}

// restWithin is how long what a process has written before its end may take to be read.
const restWithin = time.Second

// A readCloser reads from one thing and closes another.
type readCloser struct {
	io.Reader
	io.Closer
}

// A childInput is the stdin of a child process. Its Close ends the process, too.
type childInput struct {
	io.WriteCloser

	of *command
}

// Close closes stdin and waits for the process. One that does not end is sent SIGTERM, then
// SIGKILL.
func (c *childInput) Close() error {
	_ = c.WriteCloser.Close() // it is closed already when the process has ended
	process := c.of.cmd.Process
	for _, end := range []func() error{
		func() error { return nil },
		func() error { return process.Signal(syscall.SIGTERM) },
		process.Kill,
	} {
		if end() != nil {
			continue // a system without that signal
		}
		late := time.NewTimer(patience)
		select {
		case <-c.of.ended:
			late.Stop()
			return c.of.waitErr
		case <-late.C:
		}
	}
	return errors.New("mcp: the child process does not end")
}

// maxSkipped is how many bytes of a message that is too large are read past, so that the connection
// can go on behind it.
const maxSkipped = 4 * MaxMessage

// messages reads the messages of a server, each on a line of its own, bounds each of them, and has
// it [repaired]. In place of a message that is too large it reads an answer with codeTooLarge to
// the same call, or a request that the SDK refuses. A notification that is too large is left out.
//
// A message that goes on for more than maxSkipped, or is too large and has no id, breaks the
// connection with a *provider.SizeError. It is not known then which call it would have answered.
type messages struct {
	from  *bufio.Reader
	limit int // in bytes, of a line without its end
	log   *slog.Logger
	ready []byte // the rest of a line
	err   error  // behind ready
}

// Read reads whole lines.
func (m *messages) Read(p []byte) (int, error) {
	for len(m.ready) == 0 {
		if m.err != nil {
			return 0, m.err
		}
		m.ready, m.err = m.next()
	}
	n := copy(p, m.ready)
	m.ready = m.ready[n:]
	return n, nil
}

// next returns the next line. It is valid until the next call.
func (m *messages) next() ([]byte, error) {
	var whole []byte
	for {
		piece, err := m.from.ReadSlice('\n')
		isWhole := !errors.Is(err, bufio.ErrBufferFull)
		size := len(whole) + len(piece)
		switch {
		case size > m.limit+1, size > m.limit && !isWhole:
			return m.skip(whole, piece, err)
		case isWhole && whole == nil:
			return repaired(piece, m.log), err
		case isWhole:
			return repaired(append(whole, piece...), m.log), err
		}
		whole = append(whole, piece...)
	}
}

// skip reads past a line that is too large, of which there are two pieces, and returns what is told
// in its place.
func (m *messages) skip(whole, piece []byte, err error) ([]byte, error) {
	var of head
	of.read(whole)
	of.read(piece)
	size := len(whole) + len(piece)
	tooLarge := &provider.SizeError{Client: "mcp", Limit: int64(m.limit)}
	for errors.Is(err, bufio.ErrBufferFull) {
		if size > m.limit+maxSkipped {
			err = tooLarge
			break
		}
		piece, err = m.from.ReadSlice('\n')
		of.read(piece)
		size += len(piece)
	}
	m.log.Warn("mcp: a message of a server is too large, and is left out", "bytes", size,
		"limit", m.limit)
	if line := standIn(of.id, of.isRequest, codeTooLarge, tooLarge.Error()); line != nil ||
		of.isRequest {
		return line, err
	}
	return nil, tooLarge
}

// codeTooLarge is the code of an answer that stands for one that was too large. A server that sends
// it itself has its call fail in the same way, which it could have done by a large answer.
const codeTooLarge = -32097

// A head is what is kept of a message while its bytes pass by: its id, and whether it has a method.
type head struct {
	id        string // as JSON; "": it has not come
	isRequest bool

	depth     int
	inString  bool
	isEscaped bool
	isValue   bool   // behind the colon of a member of the message itself
	key, word []byte // of a member of the message itself: its name, and its value so far
}

// maxWord is how many bytes of a name or value of a member are kept. Of a longer one the rest is
// dropped.
const maxWord = 128

// read takes the next bytes of the message.
func (h *head) read(p []byte) {
	for _, c := range p {
		if h.inString {
			h.keep(c)
			switch {
			case h.isEscaped:
				h.isEscaped = false
			case c == '\\':
				h.isEscaped = true
			case c == '"':
				h.inString = false
			}
			continue
		}
		switch c {
		case '{', '[':
			h.depth++
		case '}', ']':
			h.member()
			h.depth--
		case ',':
			h.member()
		case ':':
			if h.depth == 1 {
				h.key, h.word, h.isValue = append(h.key[:0], h.word...), h.word[:0], true
			}
		case ' ', '\t', '\r', '\n':
		default:
			h.inString = c == '"'
			h.keep(c)
		}
	}
}

// keep adds a byte to the name or value of a member of the message itself.
func (h *head) keep(c byte) {
	if h.depth == 1 && len(h.word) < maxWord {
		h.word = append(h.word, c)
	}
}

// member takes a member of the message itself that is complete.
func (h *head) member() {
	if h.depth != 1 {
		return
	}
	if h.isValue {
		switch string(h.key) {
		case `"id"`:
			h.id = string(h.word)
		case `"method"`:
			h.isRequest = true
		}
	}
	h.word, h.isValue = h.word[:0], false
}

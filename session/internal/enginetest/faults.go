//go:build unix

package enginetest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// A Fault is how a write to a server fails.
type Fault int

// The faults of a write.
const (
	FaultNone  Fault = iota
	FaultCut         // nothing is written, and the connection ends
	FaultHalf        // the first half is written, and the connection ends
	FaultWhole       // all is written, the writer is told that it was not, and the connection ends
	FaultLost        // all is written, and the connection ends before an answer is read
	FaultDrop        // nothing is written, and the connection stays
	FaultTaken       // all is written, the writer is told that nothing is, and the connection stays
)

var faultNames = [...]string{"none", "cut", "half", "whole", "lost", "drop", "taken"}

// String implements fmt.Stringer.
func (f Fault) String() string { return faultNames[f] }

// allFaults are the faults that a test tries, and usualFaults is how many of them it does if it is
// not asked for more.
var allFaults = []Fault{FaultHalf, FaultTaken, FaultLost, FaultCut, FaultWhole, FaultDrop}

const usualFaults = 3

// stays reports whether the connection stays. A client that writes in a goroutine of its own tells
// no caller of such a fault, so that it counts large writes only, which clients make at once.
func (f Fault) stays() bool { return f == FaultDrop || f == FaultTaken }

// largeWrite is from how many bytes on a write is large.
const largeWrite = 32 << 10

// faultErrors are what a write returns: each time another one.
var faultErrors = []error{
	&net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.ECONNRESET)},
	&net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)},
	&net.OpError{Op: "write", Net: "tcp", Err: net.ErrClosed},
	&net.OpError{Op: "write", Net: "tcp", Err: os.ErrDeadlineExceeded},
	io.ErrClosedPipe, io.ErrShortWrite, io.EOF,
	errors.New("enginetest: a dialer of the program has its own errors"),
}

// Faults make the connections that they dial, of one process, and have writes on them fail. Their
// methods may be called concurrently.
type Faults struct {
	mu     sync.Mutex
	fault  Fault
	before int // how many writes come before the one that fails
	hits   int
}

// Arm has the n-th write from now fail, from 1 on.
func (f *Faults) Arm(fault Fault, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault, f.before = fault, n-1
}

// Disarm has no write fail any more, and reports whether one has since Arm.
func (f *Faults) Disarm() (hit bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	hit = f.fault == FaultNone
	f.fault = FaultNone
	return hit
}

// next returns the fault of a write of n bytes, and its error.
func (f *Faults) next(n int) (Fault, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fault == FaultNone || f.fault.stays() && n < largeWrite {
		return FaultNone, nil
	}
	if f.before--; f.before >= 0 {
		return FaultNone, nil
	}
	fault := f.fault
	f.fault = FaultNone
	f.hits++
	return fault, faultErrors[f.hits%len(faultErrors)]
}

// DialContext connects as that of a net.Dialer does.
func (f *Faults) DialContext(ctx context.Context, kind, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, kind, addr)
	if err != nil {
		return nil, err
	}
	return &faultyConn{Conn: conn, faults: f}, nil
}

// A faultyConn is a connection of Faults.
type faultyConn struct {
	net.Conn
	faults *Faults

	mu   sync.Mutex
	deaf error // what a read returns, nil: what comes
}

func (c *faultyConn) Write(b []byte) (n int, err error) {
	fault, err := c.faults.next(len(b))
	switch fault {
	case FaultNone:
		return c.Conn.Write(b)
	case FaultCut:
	case FaultDrop:
		return 0, err
	case FaultTaken:
		if _, failed := c.Conn.Write(b); failed != nil {
			return 0, failed
		}
		return 0, err
	case FaultLost:
		c.mu.Lock()
		c.deaf = err
		c.mu.Unlock()
		return c.Conn.Write(b)
	case FaultHalf:
		n, _ = c.Conn.Write(b[:len(b)/2])
	case FaultWhole:
		n, _ = c.Conn.Write(b)
	}
	_ = c.Conn.Close()
	return n, err
}

func (c *faultyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deaf != nil && err == nil {
		_ = c.Conn.Close()
		return 0, c.deaf
	}
	return n, err
}

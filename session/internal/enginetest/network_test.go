package enginetest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/enginetest"
)

// echoServer returns the address of a server that answers with what it is sent.
func echoServer(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return l.Addr().String()
}

// ask sends a byte and reads the answer.
func ask(conn net.Conn) error {
	if _, err := conn.Write([]byte("x")); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, 1))
	return err
}

// A Network that is cut ends its connections and takes no new one, and works again after that.
func TestNetworkThatFails(t *testing.T) {
	addr, n := echoServer(t), enginetest.NewNetwork(false)
	conn, err := n.DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	require.NoError(t, ask(conn))
	n.SetCut(true)
	require.Error(t, ask(conn))
	_, err = n.DialContext(t.Context(), "tcp", addr)
	require.Error(t, err)
	n.SetCut(false)
	require.Error(t, ask(conn), "the connection is gone")
	conn, err = n.DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	require.NoError(t, ask(conn))
	require.NoError(t, conn.Close())
}

// A Network that hangs keeps its connections: what is asked meanwhile waits for a deadline, for
// Close or for the end of the cut, and is answered then.
func TestNetworkThatHangs(t *testing.T) {
	addr, n := echoServer(t), enginetest.NewNetwork(true)
	conn, err := n.DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	n.SetCut(true)
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Millisecond)))
	require.ErrorIs(t, ask(conn), os.ErrDeadlineExceeded)
	read := make(chan error, 1)
	for _, set := range []func(time.Time) error{conn.SetDeadline, conn.SetReadDeadline} {
		require.NoError(t, set(time.Now().Add(20*time.Millisecond)))
		go func() {
			_, err := conn.Read(make([]byte, 1))
			read <- err
		}()
		select {
		case err := <-read:
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		case <-time.After(10 * time.Second):
			require.Fail(t, "a Read does not end with its deadline")
		}
		require.NoError(t, conn.SetDeadline(time.Time{}))
	}
	require.NoError(t, conn.SetWriteDeadline(time.Now()))
	require.ErrorIs(t, ask(conn), os.ErrDeadlineExceeded)
	require.NoError(t, conn.SetWriteDeadline(time.Time{}))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = n.DialContext(ctx, "tcp", addr)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	asked := make(chan error, 1)
	go func() { asked <- ask(conn) }()
	select {
	case err := <-asked:
		require.Fail(t, "answered over a network that is cut", "%v", err)
	case <-time.After(20 * time.Millisecond):
	}
	n.SetCut(false)
	require.NoError(t, <-asked)
	n.SetCut(true)
	go func() { asked <- ask(conn) }()
	require.NoError(t, conn.Close())
	require.Error(t, <-asked)
}

// failing has a Close that fails.
type failing struct{ session.Files }

var errFailing = errors.New("failing")

func (failing) Close() error { return errFailing }

// CloseWith ends a connection behind the Store that uses it, whose error is returned.
func TestCloseWith(t *testing.T) {
	ended := 0
	store := enginetest.CloseWith(&session.Store{Files: failing{}}, func() { ended++ })
	require.ErrorIs(t, store.Files.(io.Closer).Close(), errFailing)
	require.Equal(t, 1, ended)
}

package natsstore_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/offshoot-sdk/offshoot/session/internal/enginetest"
	"github.com/offshoot-sdk/offshoot/session/internal/load"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

// loadChild is a process of a bot under load: its argument is a load.Load, whose Target is the
// address of the server, a comma and the name of the streams.
func loadChild(ctx context.Context, args []string) {
	l, err := load.Of(args[0])
	if err == nil {
		err = serveLoad(ctx, l)
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
	}
}

func serveLoad(ctx context.Context, l load.Load) error {
	url, name, _ := strings.Cut(l.Target, ",")
	store, err := natsstore.Open(ctx, url, natsstore.Options{
		Name: name, Process: l.Name, TrustSync: true,
	})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	return l.Serve(ctx, store, os.Stdin, os.Stdout)
}

// TestLoad has three processes share a lane, whose limit holds. OFFSHOOT_LOAD has it print the
// tables of docs/cluster.md, and is how long each row takes, such as 10s.
// The server is in this process, which does nothing else meanwhile.
func TestLoad(t *testing.T) {
	var out strings.Builder
	s := ownServer(t, func(o *server.Options) { o.SyncAlways = true })
	e := load.Engine{
		Fresh: func() string { return s.ClientURL() + "," + fmt.Sprint("load", names.Add(1)) },
		Start: func(ctx context.Context, l load.Load) *exec.Cmd {
			return enginetest.Command(ctx, "load", l.String())
		},
		Commits: func(writers int, d time.Duration) (float64, error) {
			return commits(t.Context(), s, writers, d)
		},
		Requests: func() (int64, error) {
			v, err := s.Varz(nil)
			if err != nil {
				return 0, err
			}
			return v.InMsgs, nil
		},
		Dir: t.TempDir(), Out: &out,
	}
	parts, err := e.Parts(os.Getenv("OFFSHOOT_LOAD"))
	require.NoError(t, err)
	for _, part := range parts {
		t.Run(part.Name, func(t *testing.T) {
			out.Reset()
			require.NoError(t, part.Run(t.Context()))
			t.Log("\n" + out.String())
		})
	}
}

// commits returns how many messages a second the server takes, to as many subjects of one stream as
// there are writers, of which each waits for its own.
func commits(
	ctx context.Context, s *server.Server, writers int, d time.Duration,
) (float64, error) {
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return 0, err
	}
	name := fmt.Sprint("floor", names.Add(1))
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{
		Name: name, Subjects: []string{name + ".>"},
	})
	if err != nil {
		return 0, err
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	all, payload := 0, make([]byte, 1000)
	end := time.Now().Add(d)
	for i := range writers {
		wg.Go(func() {
			n := 0
			for ; time.Now().Before(end); n++ {
				if _, err := js.Publish(ctx, fmt.Sprint(name, ".", i), payload); err != nil {
					break
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all += n
		})
	}
	wg.Wait()
	return float64(all) / d.Seconds(), js.DeleteStream(ctx, name)
}

package agent_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// A lostAck is Transcripts whose n-th append of lines is done and fails all the same, as that of a
// server which dies before it answers. Reads and further appends fail for as long as the server is
// away.
type lostAck struct {
	session.Transcripts
	mu     sync.Mutex
	n      int
	reads  int // how many calls of Read fail after that
	writes int // how many calls of Append
	met    bool
}

var errAway = errors.New("the server is away")

func (x *lostAck) Append(
	ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
) (session.Pos, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.met && x.writes > 0 {
		x.writes--
		return 0, errAway
	}
	end, err := x.Transcripts.Append(ctx, ref, after, m...)
	if x.n--; x.n == 0 && err == nil {
		x.met = true
		return 0, errAway
	}
	return end, err
}

func (x *lostAck) Read(
	ctx context.Context, ref session.Ref, q session.LineQuery,
) iter.Seq2[session.Line, error] {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.met && x.reads > 0 {
		x.reads--
		return func(yield func(session.Line, error) bool) { yield(session.Line{}, errAway) }
	}
	return x.Transcripts.Read(ctx, ref, q)
}

// Whichever lines of a bot are written without an answer, and however long the transcripts can
// neither be read nor written after that: no turn fails, and each line is there once.
func TestLinesWithoutAnAcknowledgement(t *testing.T) {
	model := agent.ModelFunc(func(
		_ context.Context, req *agent.ModelRequest,
	) (*agent.ModelResponse, error) {
		if len(req.Messages) == 1 {
			return &agent.ModelResponse{
				ToolCalls: []agent.ToolCall{{ID: "1", Name: "look", Args: []byte(`{}`)}},
			}, nil
		}
		return &agent.ModelResponse{Text: fmt.Sprint("seen ", len(req.Messages))}, nil
	})
	look := agent.NewTool("look", "looks", func(context.Context, struct{}) (string, error) {
		return "a door", nil
	})
	chat := session.Must(session.DirectKey("main", "term", "me"))
	for reads := range 4 {
		for writes := range 4 {
			for n, met := 1, true; met; n++ {
				synctest.Test(t, func(t *testing.T) {
					store := session.NewMemory()
					x := &lostAck{
						Transcripts: store.Transcripts, n: n, reads: reads, writes: writes,
					}
					store.Transcripts = x
					rt, err := agent.Open(t.Context(), agent.Config{
						Store: store, Runner: &agent.Loop{Model: model}, Tools: []agent.Tool{look},
						Reply: func(context.Context, agent.Delivery) error { return nil },
					})
					require.NoError(t, err)
					ctx, stop := context.WithCancel(t.Context())
					ended := make(chan error, 1)
					go func() { ended <- rt.Run(ctx) }()
					in := agent.Incoming{Text: "what is there?"}
					reply, err := rt.Session(chat).PostAndWait(t.Context(), in)
					require.NoError(t, err)
					require.Equal(t, "seen 3", reply.Text, "%d, %d, %d", n, reads, writes)
					page, err := rt.Session(chat).History(t.Context(), agent.HistoryQuery{})
					require.NoError(t, err)
					require.Len(t, page.Lines, 4, "%d, %d, %d", n, reads, writes)
					stop()
					require.NoError(t, <-ended)
					met = x.met
				})
			}
		}
	}
}

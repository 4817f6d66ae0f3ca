package agent_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// failure returns the error of an answer of a provider: one that says when it takes calls again,
// one that is worth another try, or one that is not.
func failure(status int, header http.Header) error {
	err := errors.New(http.StatusText(status))
	switch {
	case status == http.StatusTooManyRequests:
		ms, _ := strconv.Atoi(header.Get("Retry-After-Ms")) // 0: not known
		return agent.RateLimited{After: time.Duration(ms) * time.Millisecond, Err: err}
	case status >= http.StatusInternalServerError:
		return agent.Retryable(err)
	}
	return err
}

// A Model whose provider limits the rate of calls. All turns on its models wait, and the call is
// made again.
func ExampleRateLimited() {
	ctx := context.Background()
	calls := 0
	generate := func(
		context.Context, *agent.ModelRequest,
	) (*agent.ModelResponse, error) {
		if calls++; calls == 1 {
			header := http.Header{"Retry-After-Ms": {"20"}}
			return nil, failure(http.StatusTooManyRequests, header)
		}
		return &agent.ModelResponse{Text: "Hello."}, nil
	}
	rt, err := agent.Open(ctx, agent.Config{
		Runner: &agent.Loop{Model: agent.ModelFunc(generate)},
		Models: agent.Models{Model: "provider/large"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(ctx) }()

	chat := rt.Session(session.Must(session.DirectKey("main", "telegram", "4711")))
	reply, err := chat.PostAndWait(ctx, agent.Incoming{Text: "Hi"})
	fmt.Println(reply.Text, calls, "calls", err)
	fmt.Println(rt.Shutdown(ctx), <-ended)
	// Output:
	// Hello. 2 calls <nil>
	// <nil> <nil>
}

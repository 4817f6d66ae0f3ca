package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
)

// What is worth another try is marked, wrapped in whatever, and what is marked is still found.
func TestRetryableErrors(t *testing.T) {
	limited := agent.RateLimited{After: 3 * time.Second, Err: io.ErrUnexpectedEOF}
	for name, c := range map[string]struct {
		err            error
		retry, limited bool
	}{
		"nil":                        {nil, false, false},
		"plain":                      {io.ErrUnexpectedEOF, false, false},
		"context":                    {context.DeadlineExceeded, false, false},
		"marked nil":                 {agent.Retryable(nil), false, false},
		"marked":                     {agent.Retryable(io.ErrUnexpectedEOF), true, false},
		"marked deadline of its own": {agent.Retryable(context.DeadlineExceeded), true, false},
		"rate limited":               {limited, true, true},
		"pointer":                    {&limited, true, true},
		"marked rate limited":        {agent.Retryable(limited), true, true},
		"rate limited, marked cause": {
			agent.RateLimited{Err: agent.Retryable(io.EOF)}, true, true,
		},
	} {
		for form, err := range map[string]error{
			"": c.err, " wrapped": fmt.Errorf("call: %w", c.err),
			" joined": errors.Join(io.ErrNoProgress, c.err),
		} {
			if c.err == nil && form != "" {
				continue
			}
			require.Equal(t, c.retry, agent.IsRetryable(err), name+form)
			value, isValue := errors.AsType[agent.RateLimited](err)
			pointer, isPointer := errors.AsType[*agent.RateLimited](err)
			require.Equal(t, c.limited, isValue, name+form)
			require.Equal(t, c.limited, isPointer, name+form)
			if c.limited {
				require.Equal(t, value, *pointer, name+form)
			}
		}
	}
	require.NoError(t, agent.Retryable(nil))
	require.ErrorIs(t, agent.Retryable(fmt.Errorf("a: %w", io.EOF)), io.EOF)
	require.EqualError(t, agent.Retryable(io.EOF), "EOF")
	require.ErrorIs(t, fmt.Errorf("b: %w", limited), io.ErrUnexpectedEOF)
	require.EqualError(t, limited,
		"agent: the provider limits the rate of calls for 3s: unexpected EOF")
	require.EqualError(t, agent.RateLimited{},
		"agent: the provider limits the rate of calls")
}

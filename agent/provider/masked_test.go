package provider

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
)

// No text of an error has a secret in any of its spellings, and the error is for the Loop what it
// was.
func TestMaskedHasNoSecret(t *testing.T) {
	keys := map[string]string{
		"short": "hunt", "plain": "hunter2-of-a-key", "odd": `hun/ter"2<+&> é=`,
		"line": "hunter2-of-a-file\n", "long": strings.Repeat("0123456789abcdef", 300),
	}
	spellings := map[string]func(string) string{
		"as it is": func(k string) string { return k },
		"Bearer":   func(k string) string { return "header Bearer " + k },
		"URL":      url.QueryEscape,
		"JSON":     strconv.Quote,
		"base64":   func(k string) string { return base64.StdEncoding.EncodeToString([]byte(k)) },
	}
	meanings := map[string]error{
		"final": errors.New("no"), "again": agent.Retryable(io.ErrUnexpectedEOF),
		"rate": agent.RateLimited{After: time.Minute}, "long": agent.ErrTooLong,
		"account": agent.ErrAccount,
	}
	for name, key := range keys {
		for how, spell := range spellings {
			said := spell(strings.TrimSpace(key))
			if name == "short" && how == "base64" || name == "long" && how != "as it is" {
				continue // as the documentation says
			}
			text := "bad request with key " + said + ", so it is."
			e := &Error{Client: "c", Status: 400, Code: said, Message: text}
			checkNone(t, Masked(t.Context(), e, key), said, name+" "+how)
			require.Contains(t, e.Message, said, "the error of the caller was changed")
			for is, meaning := range meanings {
				was := fmt.Errorf("malformed response %s: %w", said, meaning)
				err := Masked(t.Context(), was, key)
				checkNone(t, err, said, name+" "+how+" "+is)
				require.Equal(t, agent.IsRetryable(was), agent.IsRetryable(err), is)
				for _, of := range []error{agent.ErrTooLong, agent.ErrAccount} {
					require.Equal(t, errors.Is(was, of), errors.Is(err, of), is)
				}
				limited, _ := errors.AsType[agent.RateLimited](err)
				require.Equal(t, is == "rate", limited.After == time.Minute)
			}
		}
	}
}

// checkNone checks that no error in a chain has a text.
func checkNone(t *testing.T, err error, said, name string) {
	t.Helper()
	for ; err != nil; err = errors.Unwrap(err) {
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), said, name)
	}
}

// What is cut has no half of a secret at its end, wherever the cut is.
func TestMaskedCutsNoSecret(t *testing.T) {
	const key = "hunter2-of-a-key"
	for n := range len(key) + 1 {
		text := strings.Repeat("a ", maxSaid/2-len(key)) + strings.Repeat("-", n) + " " +
			strings.Repeat(key+" ", 100)
		e, ok := errors.AsType[*Error](Masked(t.Context(), &Error{Message: text}, key))
		require.True(t, ok)
		require.NotContains(t, e.Message, "hunter")
		require.Greater(t, len(e.Message), maxMessage)
	}
}

// What has no secret is the same error, and so is the cause of a ctx.
func TestMaskedKeepsErrors(t *testing.T) {
	require.NoError(t, Masked(t.Context(), nil, "hunter2"))
	err := fmt.Errorf("cut: %w", io.ErrUnexpectedEOF)
	require.Same(t, err, Masked(t.Context(), err, "hunter2", ""))
	ctx, cancel := context.WithCancelCause(t.Context())
	mine := errors.New("the owner of hunter2 has gone")
	cancel(mine)
	require.Same(t, mine, Masked(ctx, mine, "hunter2"))
}

// What the program panics with has no secret, and is left as it is if it had none.
func TestMaskedPanic(t *testing.T) {
	const key = "hunter2-of-a-key"
	plain := errors.New("out of range")
	require.Same(t, plain, MaskedPanic(plain, key))
	require.Equal(t, 7, MaskedPanic(7, key))
	for _, value := range []any{
		"Bearer " + key, errors.New(key),
		[]string{key},
		&Error{Message: key},
		struct{ Header string }{key},
	} {
		require.NotContains(t, fmt.Sprintf("%v %+v", MaskedPanic(value, key), MaskedPanic(value, key)),
			key)
	}
}

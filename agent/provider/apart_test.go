package provider

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
)

// A part shows its texts in the goroutine of the caller, is told when to end, and what it comes to
// is what Apart comes to.
func TestApart(t *testing.T) {
	req := &agent.ModelRequest{}
	var shown []string
	show := func(text string) bool {
		shown = append(shown, text)
		return text != "b"
	}
	part := func(_ context.Context, show func(string) bool) (int, error) {
		for _, text := range []string{"a", "b"} {
			if !show(text) {
				return 7, errors.New("told to end")
			}
		}
		return 0, nil
	}
	got, err := Apart(t.Context(), req, "c", show, part)
	require.EqualError(t, err, "told to end")
	require.Equal(t, 7, got)
	require.Equal(t, []string{"a", "b"}, shown)

	// A caller that panics while it is shown a text lets the part end.
	ended := make(chan bool)
	value := func() (value any) {
		defer func() { value = recover() }()
		_, _ = Apart(t.Context(), req, "c", func(string) bool { panic("the caller fell") },
			func(ctx context.Context, show func(string) bool) (int, error) {
				goesOn := show("a") || show("b")
				<-ctx.Done()
				ended <- goesOn
				return 0, nil
			})
		return nil
	}()
	require.Equal(t, "the caller fell", value)
	require.False(t, <-ended)
}

// What a part that hangs shows, or returns, when its call is over is dropped.
func TestApartIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		gone := errors.New("the caller has gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(gone) })
		began := time.Now()
		got, err := Apart(ctx, &agent.ModelRequest{}, "c",
			func(text string) bool { panic(text) },
			func(_ context.Context, show func(string) bool) (string, error) {
				<-goOn
				return fmt.Sprint(show("late")), nil
			})
		require.Equal(t, &HangError{Client: "c", Err: gone}, err)
		require.EqualError(t, err, "c: the HTTP or Key of its Config does not return: "+
			"the caller has gone")
		require.Empty(t, got)
		require.Equal(t, time.Minute+returnWithin, time.Since(began))
		close(goOn)
	})
}

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
	part := func(_ context.Context, show func(string) bool, _ func(int)) (int, error) {
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
			func(ctx context.Context, show func(string) bool, _ func(int)) (int, error) {
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

// A text that comes when the context has ended is refused, and the error is why it has ended: the
// part cannot know. A part that says why itself, or that show has told to end before, keeps its
// error, and one that comes to something all the same has come to it.
func TestApartTellsWhyItIsOver(t *testing.T) {
	gone, own := errors.New("the caller has gone"), errors.New("told to end")
	ends := map[string]func(context.Context) (context.Context, func(), error){
		"cancelled": func(ctx context.Context) (context.Context, func(), error) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(time.Minute, func() { cancel(gone) })
			return ctx, func() { cancel(nil) }, gone
		},
		"late": func(ctx context.Context) (context.Context, func(), error) {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			return ctx, cancel, context.DeadlineExceeded
		},
		"idle": func(ctx context.Context) (context.Context, func(), error) {
			ctx, watch := Begin(ctx, "c", time.Minute)
			return ctx, watch.End, nil
		},
	}
	type shower = func(text string) bool
	parts := map[string]struct {
		part func(ctx context.Context, show shower) (string, error)
		more bool  // what the first text is answered
		err  error // nil: why it is over
		made string
	}{
		"a text comes": {more: true, part: func(ctx context.Context, show shower) (string, error) {
			show("a")
			<-ctx.Done()
			time.Sleep(time.Millisecond)
			if !show("late") {
				return "", own
			}
			return "more", nil
		}},
		"texts come": {more: true, part: func(ctx context.Context, show shower) (string, error) {
			show("a")
			<-ctx.Done()
			time.Sleep(time.Millisecond)
			_, _ = show("late"), show("later")
			return "", own
		}},
		"it says so": {
			more: true, err: own, part: func(ctx context.Context, show shower) (string, error) {
				show("a")
				<-ctx.Done()
				return "", own
			},
		},
		"told before": {err: own, part: func(ctx context.Context, show shower) (string, error) {
			if show("a") {
				return "more", nil
			}
			time.Sleep(returnWithin / 2)
			_ = show("late")
			return "", own
		}},
		"it is made": {
			more: true, made: "all", part: func(ctx context.Context, show shower) (string, error) {
				show("a")
				<-ctx.Done()
				time.Sleep(time.Millisecond)
				_ = show("late")
				return "all", nil
			},
		},
	}
	for how, end := range ends {
		for name, of := range parts {
			t.Run(how+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, done, why := end(t.Context())
					defer done()
					var shown []string
					made, err := Apart(ctx, &agent.ModelRequest{}, "c", func(text string) bool {
						shown = append(shown, text)
						return of.more
					}, func(
						ctx context.Context, show func(string) bool, _ func(string),
					) (string, error) {
						return of.part(ctx, show)
					})
					require.Equal(t, []string{"a"}, shown)
					require.Equal(t, of.made, made)
					switch {
					case of.made != "":
						require.NoError(t, err)
					case of.err != nil:
						require.Equal(t, of.err, err)
					case why != nil:
						require.Equal(t, why, err)
					default:
						require.ErrorContains(t, err, "it has told c nothing for 1m")
						require.True(t, agent.IsRetryable(err))
					}
				})
			})
		}
	}
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
			func(_ context.Context, show func(string) bool, _ func(string)) (string, error) {
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

// What a part has kept last counts if it does not return, and not if it does.
func TestApartKeeps(t *testing.T) {
	for _, returns := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			goOn := make(chan struct{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			got, err := Apart(ctx, &agent.ModelRequest{}, "c", nil,
				func(_ context.Context, _ func(string) bool, keep func(string)) (string, error) {
					keep("answer")
					keep("answer and usage")
					if returns {
						return "", errors.New("its own")
					}
					<-goOn
					keep("late")
					return "late", nil
				})
			if close(goOn); returns {
				require.EqualError(t, err, "its own")
				require.Empty(t, got)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "answer and usage", got)
		})
	}
}

package provider

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
)

// returnWithin is how long code of the program may take to return when its call is over.
const returnWithin = time.Second

// A HangError says that code of the program, such as the Transport of its client, has not returned
// a second after the end of the context of a call, which goes on without it.
type HangError struct {
	Client string // the package of the client
	Err    error  // why the call is over
}

// Error says what hangs.
func (e *HangError) Error() string {
	return fmt.Sprintf("%s: the HTTP or Key of its Config does not return: %v", e.Client, e.Err)
}

// Unwrap returns Err.
func (e *HangError) Unwrap() error { return e.Err }

// Apart makes a part of a call that calls code of the program, in a goroutine of its own, and shows
// in that of the caller what the part shows. When ctx ends, or show has returned false, the part
// has a second to return. Else Apart returns a *[HangError], and what the part still returns is
// dropped. The goroutine is left to the turn then, by [agent.ModelRequest.Leave]: Stop and Shutdown
// name the session until it returns. That of a request without a turn is left to the program.
//
// A part whose text is refused, since ctx has ended, cannot tell that from a show that wants no
// more. If it returns an error, that of Apart is the cause of ctx.
//
// What a part keeps counts when the part does not return: an answer that is complete is not lost to
// a body whose Read or Close hangs behind it. Then Apart returns that, the last one, without an
// error. The part may keep several, and no part of one that it still changes.
//
// A panic of the part is one of Apart, with the stack of the part, and so is the end of its
// goroutine. The part may not use what the caller goes on with, such as the request. The client is
// the package whose call it is. A nil show is for a part that shows nothing.
func Apart[T any](
	ctx context.Context, req *agent.ModelRequest, client string, show func(text string) bool,
	part func(ctx context.Context, show func(text string) bool, keep func(made T)) (T, error),
) (T, error) {
	a := &apart[T]{
		pieces: make(chan string), goOn: make(chan bool), left: make(chan struct{}),
		done: make(chan struct{}),
	}
	defer close(a.left)
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go a.run(within, part) // the loop waits for it, or leaves it to the turn
	late := time.NewTimer(math.MaxInt64)
	defer late.Stop()
	isCut, isRefused := false, false // by the end of ctx; a text since then
	for ended, isOver := ctx.Done(), false; ; {
		select {
		case text := <-a.pieces:
			more := !isOver && show(text)
			isRefused = isRefused || isCut
			if !more && !isOver {
				isOver = true
				late.Reset(returnWithin)
			}
			a.goOn <- more
		case <-ended:
			ended = nil
			if !isOver {
				isOver, isCut = true, true
				late.Reset(returnWithin)
			}
		case <-a.done:
			made, err := a.result()
			if err != nil && isRefused {
				err = context.Cause(ctx)
			}
			return made, err
		case <-late.C:
			cancel(context.Canceled) // of one that was told to end
			req.Leave(a.done)
			if kept := a.kept.Load(); kept != nil {
				return *kept, nil
			}
			var none T
			return none, &HangError{Client: client, Err: context.Cause(within)}
		}
	}
}

// An apart is a part of a call in a goroutine of its own.
type apart[T any] struct {
	pieces chan string   // of what it shows
	goOn   chan bool     // the answer to each
	left   chan struct{} // closed when the caller has returned
	done   chan struct{} // closed when the part has returned
	kept   atomic.Pointer[T]

	// What it has come to, once done is closed.
	made     T
	err      error
	fell     *fallen
	returned bool
}

// run makes the part.
func (a *apart[T]) run(
	ctx context.Context,
	part func(ctx context.Context, show func(string) bool, keep func(T)) (T, error),
) {
	defer close(a.done)
	defer func() {
		if value := recover(); value != nil {
			a.fell = &fallen{value, debug.Stack()}
		}
	}()
	a.made, a.err = part(ctx, a.show, func(made T) { a.kept.Store(&made) })
	a.returned = true
}

// show hands a text to the caller, and waits for the answer.
func (a *apart[T]) show(text string) bool {
	select {
	case a.pieces <- text:
	case <-a.left:
		return false
	}
	select {
	case more := <-a.goOn:
		return more
	case <-a.left: // the caller has panicked
		return false
	}
}

// result is what the part has done, done by the caller.
func (a *apart[T]) result() (T, error) {
	switch {
	case a.fell != nil:
		panic(a.fell)
	case !a.returned:
		runtime.Goexit()
	}
	return a.made, a.err
}

// A fallen is what a part panicked with.
type fallen struct {
	value any
	stack []byte
}

// String returns the text of the value and the stack of the panic.
func (f *fallen) String() string { return fmt.Sprintf("%v\n\n%s", f.value, f.stack) }

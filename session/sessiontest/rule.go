package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"
)

// hangAfter is the time after which a rule that is still running fails, beside what it has to wait.
const hangAfter = time.Minute

// A rule is one promise of an interface S, with a check of whether an implementation keeps it.
type rule[S any] struct {
	name     string // one to three words, for the subtest
	sentence string // the promise, quoted in failures
	check    func(p *probe[S])
}

// A probe is one run of one rule. It opens the implementation, and remembers what it has opened so
// that it can close it.
type probe[S any] struct {
	ctx    context.Context //nolint:containedctx // a probe lives as long as one call of try
	opener func() (S, error)
	opened []S
}

// A failure is the value that [probe.fail] panics with. try recovers it. So a check reads from top
// to bottom, without the handling of an error at every step.
type failure struct{ error }

// fail ends the check, and the rule fails with the message.
func (p *probe[S]) fail(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// must fails the rule if err is not nil.
func (p *probe[S]) must(doing string, err error) {
	if err != nil {
		p.fail("%s: unexpected error: %w", doing, err)
	}
}

// wantIs fails the rule unless err wraps target.
func (p *probe[S]) wantIs(doing string, err, target error) {
	if !errors.Is(err, target) {
		p.fail("%s: got error %v, want one that is %q", doing, err, target)
	}
}

// mustNotBe fails the rule if err wraps target.
func (p *probe[S]) mustNotBe(doing string, err, target error) {
	if errors.Is(err, target) {
		p.fail("%s: unexpected error: %w", doing, err)
	}
}

// open opens the implementation, as a process that starts would.
func (p *probe[S]) open() S {
	s, err := p.opener()
	p.must("open", err)
	p.opened = append(p.opened, s)
	return s
}

// reopen closes everything that is open and can be closed, and opens the implementation again, as a
// process that starts again would.
func (p *probe[S]) reopen() S {
	p.must("close", p.closeAll())
	return p.open()
}

// closeAll closes everything that is open and can be closed.
func (p *probe[S]) closeAll() error {
	var errs []error
	for _, s := range p.opened {
		if c, ok := any(s).(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	p.opened = nil
	return errors.Join(errs...)
}

// try runs the rule and returns why it is broken, nil if it is kept. A rule that is still running
// after a time is.
func (r rule[S]) try(
	ctx context.Context, open func() (S, error), within time.Duration,
) error {
	done := make(chan error, 1)
	go func() {
		p := &probe[S]{ctx: ctx, opener: open}
		defer func() {
			caught := recover()
			err := p.closeAll()
			switch f, ok := caught.(failure); {
			case ok:
				err = f.error
			case caught != nil:
				err = fmt.Errorf("panic: %v", caught)
			case err != nil:
				err = fmt.Errorf("close: %w", err)
			}
			done <- err
		}()
		r.check(p)
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(within):
		return fmt.Errorf("hangs: no answer for %v", within)
	}
}

// runRules runs every rule in a subtest, each with an empty store.
func runRules[S any](t *testing.T, rules []rule[S], fresh func(t *testing.T) func() (S, error)) {
	t.Helper()
	for i, r := range rules {
		t.Run(fmt.Sprintf("%02d_%s", i+1, r.name), func(t *testing.T) {
			if err := r.try(t.Context(), fresh(t), hangAfter); err != nil {
				t.Errorf("rule %d is broken: %s\n\t%v", i+1, r.sentence, err)
			}
		})
	}
}

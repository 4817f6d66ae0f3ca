package ctxguard

import "context"

// A Check returns an error for a context that must not be used.
type Check func(ctx context.Context) error

type key struct{}

// With returns a context that carries a check.
func With(ctx context.Context, c Check) context.Context { return context.WithValue(ctx, key{}, c) }

// From returns the check that a context carries. Without one it returns a Check that allows all.
func From(ctx context.Context) Check {
	if c, ok := ctx.Value(key{}).(Check); ok {
		return c
	}
	return func(context.Context) error { return nil }
}

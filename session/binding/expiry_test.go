package binding

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

var expiryNoon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func TestExpiry(t *testing.T) {
	for what, c := range map[string]struct {
		idle, age time.Duration
		touched   time.Duration // after it was bound
		at        time.Duration
		why       Reason
		never     bool
	}{
		"no limit":           {never: true},
		"idle":               {idle: time.Hour, at: time.Hour, why: ReasonIdle},
		"idle after a touch": {idle: time.Hour, touched: 30 * time.Minute, at: 90 * time.Minute, why: ReasonIdle},
		"an active one ends too": { // 7.11
			age: time.Hour, touched: 59 * time.Minute, at: time.Hour, why: ReasonMaxAge,
		},
		"idle is earlier": {idle: time.Hour, age: 2 * time.Hour, at: time.Hour, why: ReasonIdle}, // 7.8
		"age is earlier":  {idle: 2 * time.Hour, age: time.Hour, at: time.Hour, why: ReasonMaxAge},
		"idle off":        {age: time.Hour, at: time.Hour, why: ReasonMaxAge}, // 7.13
	} {
		b := Binding{
			Bound: expiryNoon, Touched: expiryNoon.Add(c.touched), Idle: c.idle, MaxAge: c.age,
		}
		at, why, ok := b.Expiry()
		assert.Equal(t, !c.never, ok, what)
		if c.never {
			_, over := b.expired(expiryNoon.AddDate(100, 0, 0))
			assert.False(t, over, what)
			continue
		}
		assert.Equal(t, expiryNoon.Add(c.at), at, what)
		assert.Equal(t, c.why, why, what)
		_, over := b.expired(at.Add(-1))
		assert.False(t, over, what)
		why, over = b.expired(at)
		assert.True(t, over, what)
		assert.Equal(t, c.why, why, what)
	}
}

// The empty name is not an owner, not even of a binding that has none.
func TestEmptyNameMayChangeNothing(t *testing.T) {
	assert.False(t, Binding{}.mayChange(""))
}

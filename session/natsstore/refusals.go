package natsstore

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// refusals are what a server says of a connection beside its answers, such as that the user has no
// right to something. The request that needs the right is not answered. The nil refusals know
// nothing.
type refusals struct {
	mu   sync.Mutex
	last string // what was refused last
	at   time.Time
	said time.Time // when the log was told something
}

// refusedFor is how long a refusal may be the reason of a request that is not answered, beside the
// time of the request, and sayEvery is how often the log is told of what a server says.
const refusedFor, sayEvery = 5 * time.Second, time.Second

// take implements nats.ErrHandler.
func (r *refusals) take(_ *nats.Conn, _ *nats.Subscription, err error) {
	now := time.Now()
	r.mu.Lock()
	if errors.Is(err, nats.ErrPermissionViolation) {
		r.last, r.at = err.Error(), now
	}
	say := now.Sub(r.said) >= sayEvery
	if say {
		r.said = now
	}
	r.mu.Unlock()
	if say {
		slog.Warn("natsstore: the server says", "error", err.Error())
	}
}

// since returns what was refused last, if that was not long before a time; else "".
func (r *refusals) since(begun time.Time) string {
	if r == nil {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.Before(begun.Add(-refusedFor)) {
		return ""
	}
	return r.last
}

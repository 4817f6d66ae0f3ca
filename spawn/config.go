package spawn

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/internal/weight"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// DefaultGrace is the grace period of a Config that sets none.
const DefaultGrace = 10 * time.Second

// DefaultAnnounceTimeout is the AnnounceTimeout of a Config that sets none.
const DefaultAnnounceTimeout = 2 * time.Minute

// DefaultDeliverTimeout is the DeliverTimeout of a Config that sets none.
const DefaultDeliverTimeout = 2 * time.Minute

// Config configures a Supervisor. A text in it has at most 1,000,000 bytes, and all of them
// together have 10,000,000.
type Config struct {
	// Store keeps everything that must survive the process. It is required, and so is its Journal.
	Store *session.Store
	// Runner runs the turns. It is required.
	Runner Runner
	// Rules decide what may be spawned. The zero Rules are the defaults. [Supervisor.SetRules] puts
	// others in their place.
	Rules policy.Rules
	// Deliver takes what leaves a tree. It returns nil once the receiver can no longer lose the
	// delivery. After an error, a panic or a runtime.Goexit the Supervisor calls it again with the
	// same Key.
	//
	// The completions for a session are one destination, and so are the replies of a tree to one
	// Route. Calls for one destination never overlap and keep their order: a delivery that fails,
	// or whose receiver is busy, holds back those behind it until it has arrived or is blocked.
	// Other destinations go on. A destination that has failed for half an hour has one try for each
	// delivery; what fails then is blocked, see [Supervisor.Blocked]. The time in which no process
	// owns the tree does not count.
	//
	// Deliver is required if CallerRun or Replies is set.
	Deliver func(ctx context.Context, out Delivery) error
	// Queue says how a session that the caller runs is told when several deliveries wait for it. It
	// is asked at each call of Deliver for a completion or an event, and within its time: it may
	// look at what the session does now. One that panics, or returns what is not a mode, is logged,
	// and has QueueFollowup; one that ends its goroutine or hangs is a call that has failed. Nil:
	// QueueFollowup.
	Queue func(of session.Key) QueueMode
	// DeliverTimeout is how long a call of Deliver may take. Then its ctx ends, and the attempt has
	// failed. No further call for its destination begins before it has returned; if it returns nil
	// in the end, the delivery has arrived. Zero means DefaultDeliverTimeout; a negative
	// DeliverTimeout is an error, because a receiver that hangs must not hold back its destination
	// without a word.
	DeliverTimeout time.Duration
	// Spawning is asked before a run is admitted, after the rules: an error of it refuses the
	// spawn, with a *[VetoError]. It is asked for every spawn of a program and of a model, unless
	// its Key is known, and not for a follow-up. Its ctx is that of the spawn and ends after
	// HookTimeout. Spawning may call the Supervisor. One that panics, ends its goroutine or has not
	// returned in time refuses the spawn with a *[CallbackError]. Of a spawn that is repeated after
	// ErrUnconfirmed it may be asked twice. Nil: every spawn that the rules admit may be.
	Spawning func(ctx context.Context, run SpawningRun) error
	// Ended is told of the end of every run that ends while it is set; out.Ended is. It gets a
	// destination of its own: in the order in which the runs of a tree end, at least once under one
	// Key, tried again and blocked as Deliver is, with HookTimeout for a call. Neither completions
	// nor replies wait for it. A run is archived after it has arrived, or was dismissed. Without
	// Ended what an earlier process has left for it is dismissed. Nil: nothing is told.
	Ended func(ctx context.Context, out Delivery) error
	// CallerRun says that the caller runs the top-level sessions itself: their completions are
	// handed to Deliver instead of put into their inbox.
	CallerRun bool
	// Apology is what people are told if Replies is set and a turn of a top-level session is given
	// up: the process has died in it three times. A bound conversation is told if a run of a
	// sub-agent has ended otherwise than well, was not stopped, and leaves messages of the
	// conversation without an answer. Empty: nothing.
	Apology string
	// Replies says that the answers of top-level sessions are handed to Deliver.
	Replies bool
	// ValidModel reports whether a model name is valid. Nil accepts every well-formed name. A spawn
	// asks it before it is decided, outside of the tree: ValidModel may call the Supervisor, and
	// one that takes long, or hangs, delays that spawn alone. One that panics refuses the spawn
	// with a *[CallbackError].
	ValidModel func(string) bool
	// Model and Thinking are what top-level sessions run with. The Model of the agent in the Rules
	// comes first.
	Model, Thinking string
	// Tools are the names of all tools that exist. The Rules say which of them a session may use
	// and hand down.
	Tools []string
	// Grace is how long a turn that was cancelled may take to return before the Supervisor gives it
	// up. Zero means DefaultGrace; a negative Grace is an error.
	Grace time.Duration
	// AnnounceTimeout is how long the announce step of a run may take, see [TurnInput].Announces.
	// Then it is cancelled, and the result of the run is announced as it is. Zero means
	// DefaultAnnounceTimeout; a negative AnnounceTimeout is an error, because the end of a run is
	// told after its step.
	AnnounceTimeout time.Duration
	// Rested is told when a session will have no turn for some time, so that what was kept for its
	// next turn can go: when its run has ended, unless that was a later run of the session or a
	// conversation is bound to it, since more is to be expected then; when it was reset or
	// archived; and, with the zero Key as the session, for a whole tree that was unloaded after ten
	// minutes without work, or that was lost. A turn that was given up may still be under way.
	// Rested may be told of the same more than once. The tree waits for it, so that it must return
	// at once and not call the Supervisor. A panic is logged. Nil: nothing is told.
	Rested func(root, of session.Key)
	// Unbind is told that a conversation is to be bound to a session no longer, because of what has
	// become of a sub-agent:
	//
	//   - the run that it was spawned for has ended, and the end has arrived where it was to be
	//     told; with Request.Session, or where the conversation was bound later, it goes on;
	//   - a person or the program has stopped it, or it has ended before its first turn;
	//   - a run above it has ended;
	//   - it is to be archived for good.
	//
	// Messages of the conversation are refused from then on, see [ErrNotBound]. When Unbind has
	// returned nil, the tree records that the conversation is unbound. The ctx ends after
	// DeliverTimeout. Unbind is called again, after pauses, if it fails, panics or ends its
	// goroutine, and after a restart of the process. So it may be called for what is unbound
	// already. Nil: the tree unbinds at once.
	Unbind func(ctx context.Context, u UnbindRequest) error
	// Tidy is told that what the program has made for a sub-agent outside of the Store may go, if
	// it was spawned with an Extra: when the end of its run, however that came, has arrived where
	// it was to be told, and when its session is archived. After the end of a run it is called
	// once by each process that has the tree in memory; what fails is left to the archive, which
	// waits for Tidy and calls it again, after pauses, until it returns nil. A next run may begin
	// meanwhile. The ctx ends after DeliverTimeout. Nil: nothing is told.
	Tidy func(ctx context.Context, q TidyRequest) error
	// Limits bound what callers and models give. The zero Limits are the defaults.
	Limits Limits
	// Redact masks the text of an error before it is recorded, shown or logged, and the reason of a
	// [VetoError]: what Config.Deliver, Config.Spawning, a Runner and a store return may repeat a
	// secret. It returns what may be seen, of what it has returned the same, and is called by many
	// goroutines at the same time, also in the tree: it must return at once and not call the
	// Supervisor. Of a text on which it panics nothing is kept. Nil: the credentials are masked
	// that package announce knows.
	Redact func(text string) string
	// Logger gets the failures that are not returned to a caller. Their texts are masked as Redact
	// says, and each has at most 10,000 bytes. A record on which its Handler panics is lost. Nil
	// discards them.
	Logger *slog.Logger
}

func (c *Config) validate() error {
	switch {
	case c.Store == nil || c.Store.Journal == nil:
		return &InputError{Field: "Store", Reason: "it is missing, or has no Journal"}
	case c.Runner == nil:
		return &InputError{Field: "Runner", Reason: "it is missing"}
	case c.Deliver == nil && (c.CallerRun || c.Replies):
		return &InputError{
			Field: "Deliver", Reason: "it is missing, but CallerRun or Replies is set",
		}
	case c.DeliverTimeout < 0:
		return &InputError{
			Field: "DeliverTimeout", Reason: "it is negative: " + c.DeliverTimeout.String(),
		}
	case c.AnnounceTimeout < 0:
		return &InputError{
			Field: "AnnounceTimeout", Reason: "it is negative: " + c.AnnounceTimeout.String(),
		}
	case c.Grace < 0:
		return &InputError{Field: "Grace", Reason: "it is negative: " + c.Grace.String()}
	}
	if err := c.Limits.Validate(); err != nil {
		return err
	}
	if over := weight.Check(*c, weight.OfConfig); over != nil {
		return &InputError{Field: cmp.Or(over.Path, "Config"), Reason: over.Error()}
	}
	bad := text.NameFault(c.Model)
	if bad == "" && c.Model != "" {
		bad = policy.ModelFault(c.Model)
	}
	if bad != "" {
		return &InputError{Field: "Model", Reason: bad}
	}
	if bad := text.NameFault(c.Thinking); bad != "" {
		return &InputError{Field: "Thinking", Reason: bad}
	}
	for i, name := range c.Tools {
		if bad := text.NameFault(name); bad != "" || name == "" {
			return &InputError{
				Field: fmt.Sprintf("Tools[%d]", i), Reason: cmp.Or(bad, "it is empty"),
			}
		}
	}
	return c.Rules.Validate()
}

// Limits bound what callers and models give to a tree. A field that is zero is its default, and one
// that is [NoLimit] means without a bound of its own: more than 10 MiB of texts in one call are
// refused all the same, because a journal need not take more. What is over a bound is refused with
// a *[LimitError]; of the text of a result the rest is cut.
type Limits = tree.Limits

// NoLimit switches a bound of [Limits] off.
const NoLimit = tree.NoLimit

package natsstore

import (
	"fmt"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/session/internal/remote"
)

// DefaultName is the name of the streams where Options do not name them.
const DefaultName = "offshoot"

// DefaultTimeout is how long a call waits for the server where Options do not say.
const DefaultTimeout = 15 * time.Second

// MaxLease is the longest lease of a process.
const MaxLease = 24 * time.Hour

// maxName is the longest Options.Name, in bytes.
const maxName = 32

// maxReplicas is the most replicas that JetStream makes of a stream.
const maxReplicas = 5

// Options say how a Store uses its server. The zero Options are refused by every server, because
// they do not say why it is to be trusted: see Monitor and TrustSync.
type Options struct {
	// Name is the name of what the Store keeps: its streams are <Name>_log, <Name>_text and
	// <Name>_docs, and its subjects begin with it. Two bots of one account have two names. It has 1
	// to 32 bytes: lower case letters of ASCII, digits, _ and -. Empty means [DefaultName].
	Name string

	// Timeout is the longest that a request to the server is waited for, with the time until the
	// connection is there again. A call may need several requests. Zero means [DefaultTimeout]; it
	// is at least one second. Requests for leases and claims have a third of the Lease if that is
	// less, and at least one second.
	Timeout time.Duration

	// Replicas is how many servers of a cluster keep the streams, 1, 3 or 5. Zero means those that
	// the streams have, and 1 for streams that Open makes. Streams that have another number are a
	// *[SettingError]: an operator changes that.
	Replicas int

	// Monitor has the monitoring addresses of the servers, such as http://nats.example:8222, of
	// each server of a cluster. Open asks each of them for its settings, and refuses one that
	// acknowledges before it writes.
	Monitor []string

	// TrustSync takes servers without asking for their settings, or whatever they are. What was
	// acknowledged may be gone after a loss of power unless they have sync_interval: always. It is
	// for tests, and for servers whose operator sees to it.
	TrustSync bool

	// Process has this process share the streams with others, under a name for the place where it
	// runs, such as that of its host: the Store then has Owners. A process that opens under the
	// name of another one takes its place. It has 1 to 200 bytes of text that can be drawn, and is
	// not blank. Empty: the Store has no Owners, is refused beside processes that have a Process,
	// and the operator sees to it that one such process uses the streams at a time. It is
	// experimental as [session.Owners] is.
	Process string

	// Lease is how long this process keeps what it has claimed while the server does not hear from
	// it. Zero means [session.DefaultLease]; it is one second to [MaxLease]. It is for Process.
	Lease time.Duration
}

// An OptionError says which of the [Options] cannot be used.
type OptionError struct {
	Field  string // as in Options
	Value  any
	Reason string
}

func (e *OptionError) Error() string {
	return fmt.Sprintf("natsstore: Options.%s is %v: %s", e.Field, e.Value, e.Reason)
}

// withDefaults returns o with its defaults, or an *[OptionError].
func (o Options) withDefaults() (Options, error) {
	if o.Name == "" {
		o.Name = DefaultName
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	lease, fault := remote.CheckProcess(o.Process, o.Lease, MaxLease, o.Timeout)
	if fault != nil {
		return o, (*OptionError)(fault)
	}
	o.Lease = lease
	switch {
	case len(o.Name) > maxName:
		return o, o.refuse("Name", fmt.Sprintf("%.80q", o.Name), "it has more than 32 bytes")
	case strings.Trim(o.Name, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "":
		return o, o.refuse("Name", fmt.Sprintf("%q", o.Name),
			"it has more than lower case letters of ASCII, digits, _ and -")
	case o.Replicas < 0 || o.Replicas > maxReplicas || o.Replicas > 0 && o.Replicas%2 == 0:
		return o, o.refuse("Replicas", o.Replicas, "it must be 1, 3 or 5, or 0")
	case len(o.Monitor) == 0 && !o.TrustSync:
		return o, o.refuse("Monitor", "empty",
			"whether the servers have sync_interval: always cannot be asked; "+
				"set it, or TrustSync (-trust-sync) if they have")
	}
	return o, nil
}

func (o Options) refuse(field string, value any, reason string) error {
	return &OptionError{field, value, reason}
}

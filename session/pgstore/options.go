package pgstore

import (
	"fmt"
	"time"

	"github.com/offshoot-sdk/offshoot/session/internal/remote"
)

// DefaultSchema is the schema of the tables where Options do not name one.
const DefaultSchema = "offshoot"

// DefaultTimeout is how long a call waits for the server where Options do not say.
const DefaultTimeout = 15 * time.Second

// MaxLease is the longest lease of a process: the server forgets a process that it has not heard of
// for that long.
const MaxLease = 24 * time.Hour

// maxSchemaLen is the longest name that PostgreSQL keeps whole, in bytes.
const maxSchemaLen = 63

// Options say how a Store uses its database. The zero Options are those of a bot that has a
// database of its own.
type Options struct {
	// Schema has the tables. Two bots of one database have two schemas. It has 1 to 63 bytes: lower
	// case letters of ASCII, digits and _, does not begin with a digit or pg_, and is not
	// information_schema. Empty means [DefaultSchema].
	Schema string

	// Timeout is the longest that a call waits for the server, the time for a connection included.
	// A Read or a Put has it for each of its pages. Zero means [DefaultTimeout]; it is at least one
	// second. The calls of Owners that carry no body of a request or answer have a third of the
	// Lease if that is less, and at least one second: a call that hangs takes the time of the next
	// beat.
	Timeout time.Duration

	// Shared opens the schema without its lock; see the package documentation. With a Process, what
	// others ask is found by asking the server each second alone.
	Shared bool

	// Process has this process share the schema with others, under a name for the place where it
	// runs, such as that of its host: the Store then has Owners. A process that opens under the
	// name of another one takes its place. It has 1 to 200 bytes of text that can be drawn, and is
	// not blank. Empty: this process has the schema alone. It is experimental as [session.Owners]
	// is.
	Process string

	// Lease is how long this process keeps what it has claimed while the server does not hear from
	// it. Zero means [session.DefaultLease]; it is one second to [MaxLease]. It is for Process.
	Lease time.Duration

	// TrustSync takes a server that acknowledges before it writes. What was acknowledged may be
	// gone after a crash of such a server. It is for tests, and for servers that say so and hold
	// otherwise.
	TrustSync bool
}

// An OptionError says which of the [Options] cannot be used.
type OptionError struct {
	Field  string // as in Options
	Value  any
	Reason string
}

func (e *OptionError) Error() string {
	return fmt.Sprintf("pgstore: Options.%s is %v: %s", e.Field, e.Value, e.Reason)
}

// withDefaults returns o with its defaults, or an *[OptionError].
func (o Options) withDefaults() (Options, error) {
	if o.Schema == "" {
		o.Schema = DefaultSchema
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if reason := schemaFault(o.Schema); reason != "" {
		return o, &OptionError{"Schema", fmt.Sprintf("%.80q", o.Schema), reason}
	}
	lease, fault := remote.CheckProcess(o.Process, o.Lease, MaxLease, o.Timeout)
	if fault != nil {
		return o, (*OptionError)(fault)
	}
	o.Lease = lease
	return o, nil
}

// schemaFault returns why s cannot be the name of the schema, or "".
func schemaFault(s string) string {
	switch {
	case len(s) > maxSchemaLen:
		return fmt.Sprintf("it has %d bytes, at most %d", len(s), maxSchemaLen)
	case '0' <= s[0] && s[0] <= '9':
		return "it begins with a digit"
	case len(s) >= 3 && s[:3] == "pg_":
		return "names with pg_ are the server's"
	case s == "information_schema":
		return "it is the server's own: tables of a bot do not belong there"
	}
	for i := range len(s) {
		if c := s[i]; c != '_' && (c < 'a' || 'z' < c) && (c < '0' || '9' < c) {
			return "it has more than lower case letters of ASCII, digits and _"
		}
	}
	return ""
}

package provider

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/offshoot-sdk/offshoot/agent"
)

// A Class is what an error of a provider means for those who called it.
type Class uint8

// The classes of errors.
const (
	ClassStatus    Class = iota // what the Status says, and the Message
	ClassRefused                // another try comes to the same
	ClassRetryable              // worth another try: agent.Retryable, or with an After ClassRate
	ClassRate                   // the provider takes no calls for now: agent.RateLimited
	ClassTooLong                // agent.ErrTooLong
	ClassAccount                // agent.ErrAccount
)

var classNames = [...]string{"status", "refused", "retryable", "rate", "too long", "account"}

// String returns the name of the class, such as "retryable".
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return fmt.Sprintf("Class(%d)", uint8(c))
}

// An Error is what a provider answers in the place of an answer of the model. It is what its Class
// says: errors.Is and errors.As find the errors of package agent.
type Error struct {
	Client  string        // the package of the client, with which the text begins
	Status  int           // of HTTP; 0: the provider said it in the middle of an answer
	Code    string        // the provider's word for it; may be empty
	Message string        // the provider's sentence for it; may be empty
	After   time.Duration // until the provider takes calls again; 0: it does not say
	Class   Class         // ClassStatus: the Status and the Message decide
}

// maxMessage is how many bytes of what a provider says an Error shows.
const maxMessage = 1000

// Error says what the provider answered, on one line: of a Message the first 1000 bytes.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: the provider answers", e.Client)
	if e.Status != 0 {
		fmt.Fprintf(&b, " %d", e.Status)
		if text := http.StatusText(e.Status); text != "" {
			b.WriteString(" " + text)
		}
	}
	if e.Code != "" {
		fmt.Fprintf(&b, " (%.100s)", oneLine(e.Code))
	}
	if said := oneLine(e.Message[:min(len(e.Message), maxMessage)]); !e.repeats(said) {
		b.WriteString(": " + said)
	}
	return b.String()
}

// repeats reports whether a message adds nothing to the status and the code.
func (e *Error) repeats(said string) bool {
	status := http.StatusText(e.Status)
	for _, known := range []string{"", status, fmt.Sprintf("%d %s", e.Status, status), e.Code} {
		if strings.EqualFold(strings.TrimRight(said, "."), known) {
			return true
		}
	}
	return false
}

// oneLine returns a text without line breaks and other control characters, and in valid UTF-8, for
// a line of a log.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, ""), func(r rune) bool {
		return unicode.IsSpace(r) || !isPlain(r)
	}), " ")
}

// The reasons of errors that have no error of package agent.
var errAgain = agent.Retryable(errors.New("provider: it has failed"))

// Unwrap returns the error of package agent that e is, or nil.
func (e *Error) Unwrap() error {
	switch e.class() {
	case ClassRetryable:
		return errAgain
	case ClassRate:
		return agent.RateLimited{After: e.After}
	case ClassTooLong:
		return agent.ErrTooLong
	case ClassAccount:
		return agent.ErrAccount
	default:
		return nil
	}
}

// ClassOf returns what an error of a status means that has no code the client knows.
func ClassOf(status int, message string) Class {
	return (&Error{Status: status, Message: message}).class()
}

// class returns the Class of e, decided. What is worth another try is so when its After is over,
// whatever the Status and the Code are.
func (e *Error) class() Class {
	class := e.decided()
	if class == ClassRetryable && e.After > 0 {
		return ClassRate
	}
	return class
}

// decided returns the Class of e without what its After says.
func (e *Error) decided() Class {
	switch status := e.Status; {
	case e.Class != ClassStatus:
		return e.Class
	case status == http.StatusTooManyRequests:
		return ClassRate
	case status == http.StatusUnauthorized, status == http.StatusForbidden,
		status == http.StatusPaymentRequired:
		return ClassAccount
	case status == http.StatusRequestEntityTooLarge:
		return ClassTooLong
	case status == http.StatusRequestTimeout, status == http.StatusConflict,
		status == http.StatusTooEarly, status >= http.StatusInternalServerError:
		return ClassRetryable
	case saysTooLong(e.Message):
		return ClassTooLong
	case status == 0:
		return ClassRetryable
	}
	return ClassRefused
}

// tooLong are the words of providers and of servers that speak like one.
var tooLong = []string{
	"context length", "context window", "context size", "maximum context", "prompt is too long",
	"input is too long", "too many tokens", "token count exceeds", "context_length_exceeded",
	"exceed context limit",
}

// saysTooLong reports whether a provider says that the conversation is too long.
func saysTooLong(message string) bool {
	message = strings.ToLower(message)
	for _, words := range tooLong {
		if strings.Contains(message, words) {
			return true
		}
	}
	return false
}

// MaxAfter is the longest time that [After] returns.
const MaxAfter = 24 * time.Hour

// After returns how long a provider says that it takes no calls, by the headers Retry-After-Ms and
// Retry-After: in seconds, or as a date. 0: it does not say, or the time is over. A longer time
// than [MaxAfter] is that: the next answer says it again. The Loop waits for less.
func After(h http.Header, now time.Time) time.Duration {
	for _, of := range [...]struct {
		name string
		unit time.Duration
	}{{"Retry-After-Ms", time.Millisecond}, {"Retry-After", time.Second}} {
		said := strings.TrimSpace(h.Get(of.name))
		if n, err := strconv.ParseFloat(said, 64); err == nil && n > 0 {
			return time.Duration(min(n, float64(MaxAfter/of.unit)) * float64(of.unit))
		}
		if at, err := http.ParseTime(said); err == nil {
			return min(max(at.Sub(now), 0), MaxAfter)
		}
	}
	return 0
}

// Broken returns the error of a call whose connection has failed, or whose answer is not one: it is
// Retryable, unless ctx has ended. Then it is the cause of that. A *[SizeError] stays one. It is
// not Retryable, and neither is a [bufio.ErrTooLong], which becomes one: a server that has sent
// what is too large once does so again.
func Broken(ctx context.Context, client string, err error) error {
	if size, ok := errors.AsType[*SizeError](err); ok {
		return size
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, bufio.ErrTooLong) {
		return &SizeError{Client: client, Limit: MaxLine, Line: true}
	}
	return agent.Retryable(fmt.Errorf("provider: the answer to %s did not arrive: %w", client, err))
}

// Bounded returns a copy of h, or of [http.DefaultClient] for nil, that reads maxBytes of an
// answer: its requests go through a [Transport]. 0: [DefaultMaxBytes]. The client is the package
// whose call it is.
func Bounded(h *http.Client, client string, maxBytes int64) *http.Client {
	bounded := copyOf(h)
	bounded.Transport = &Transport{Base: bounded.Transport, Client: client, MaxBytes: maxBytes}
	return &bounded
}

// OneRequest returns a copy of h, or of [http.DefaultClient] for nil, for which a call is one
// request: a redirect is an *[Error] of its status that is not worth another try. A client that
// follows one sends the conversation, and the key in a header that the http package does not know,
// to a server that the program did not choose. The client is the package whose call it is.
func OneRequest(h *http.Client, client string) *http.Client {
	one := copyOf(h)
	one.CheckRedirect = func(next *http.Request, _ []*http.Request) error {
		e := &Error{
			Client: client, Class: ClassRefused,
			Message: "it redirects to " + strconv.Quote(next.URL.Host) + ", which is not followed",
		}
		if next.Response != nil {
			e.Status = next.Response.StatusCode
		}
		return e
	}
	return &one
}

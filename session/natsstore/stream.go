package natsstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/offshoot-sdk/offshoot/session"
)

// idHeader has the random name of a publication. A writer whose acknowledgement was lost finds out
// by it whether the message that has come is its own.
const idHeader = "Offshoot-Id"

// largeBody is from how many bytes on a message takes time on a slow way.
const largeBody = 64 << 10

// A publication is a message as it is sent.
type publication struct {
	subject string
	data    []byte
	// after is the sequence of the message with which the subject must end, 0 for none. It counts
	// if compares is set.
	after    uint64
	compares bool
	ttl      time.Duration // after which the server removes the message; 0: never
}

// publish adds a message to the stream and returns its sequence. The error is errMoved if the
// subject does not end as p.after says. A message that compares comes once, however often its
// acknowledgement is lost. Another one may come again.
func (s stream) publish(ctx context.Context, p publication) (seq uint64, err error) {
	m := nats.NewMsg(p.subject)
	m.Data = p.data
	id := session.NewID()
	m.Header.Set(idHeader, id)
	options := []jetstream.PublishOpt{jetstream.WithRetryAttempts(0)}
	if p.compares {
		options = append(options, jetstream.WithExpectLastSequencePerSubject(p.after))
	}
	if p.ttl > 0 {
		options = append(options, jetstream.WithMsgTTL(p.ttl))
	}
	lost := false // an acknowledgement may be
	begun := time.Now()
	defer func() { err = s.noteWrite(ctx, begun, err) }()
	asking := s
	if len(p.data) > largeBody {
		asking = s.in(paceLarge)
	}
	err = asking.ask(ctx, func(ctx context.Context, again bool) error {
		if p.compares && p.after == 0 { // another stream would take it, too
			if err := s.verify(ctx, true); err != nil {
				return err
			}
		}
		ack, err := s.e.js.PublishMsg(ctx, m, options...)
		switch {
		case err == nil:
			seq = ack.Sequence
		case isMoved(err):
			lost, err = again, errMoved
		}
		return err
	})
	if errors.Is(err, errMoved) && lost {
		// What follows the message that was expected has won, which may be this one.
		found, ok, failed := s.next(ctx, p.subject, p.after+1)
		switch {
		case failed != nil:
			return 0, failed
		case ok && found.id == id:
			return found.seq, nil
		}
	}
	return seq, err
}

// get asks for one message. It reports whether there is one.
func (s stream) get(
	ctx context.Context, f func(ctx context.Context) (*jetstream.RawStreamMsg, error),
) (m message, ok bool, err error) {
	err = s.ask(ctx, func(ctx context.Context, _ bool) error {
		raw, err := f(ctx)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err == nil {
			ok = true
			m = message{
				seq: raw.Sequence, subject: raw.Subject, id: raw.Header.Get(idHeader),
				after: raw.Header.Get(nats.ExpectedLastSubjSeqHdr), time: raw.Time, data: raw.Data,
			}
		}
		return err
	})
	return m, ok, err
}

// last returns the message with which a subject ends.
func (s stream) last(ctx context.Context, subject string) (message, bool, error) {
	return s.get(ctx, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
		return s.GetLastMsgForSubject(ctx, subject)
	})
}

// next returns the first message from a sequence on whose subject a filter matches.
func (s stream) next(ctx context.Context, filter string, from uint64) (message, bool, error) {
	return s.get(ctx, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
		return s.GetMsg(ctx, max(from, 1), jetstream.WithGetMsgSubject(filter))
	})
}

// at returns the message of a sequence.
func (s stream) at(ctx context.Context, seq uint64) (message, bool, error) {
	return s.get(ctx, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
		return s.GetMsg(ctx, seq)
	})
}

// bulkBytes is how many bytes of messages wait in memory for who reads many of them: enough for
// some of the largest.
const bulkBytes = 8 << 20

// bulk calls f with messages that a filter matches from a sequence on, in order and without a gap,
// until f returns false: as many as there are at once, or fewer. It asks a replica of the stream,
// which need not have the last ones, so the caller asks the leader for the rest.
func (s stream) bulk(
	ctx context.Context, filter string, from uint64, f func(message) (more bool),
) {
	_ = s.in(paceLarge).ask(ctx, func(ctx context.Context, again bool) error {
		if again { // some may have come
			return nil
		}
		consumer, err := s.e.js.OrderedConsumer(ctx, s.CachedInfo().Config.Name,
			jetstream.OrderedConsumerConfig{
				FilterSubjects: []string{filter}, OptStartSeq: from,
				DeliverPolicy: jetstream.DeliverByStartSequencePolicy, InactiveThreshold: s.timeout,
			})
		if err != nil {
			return err
		}
		info := consumer.CachedInfo()
		if info == nil {
			return nil
		}
		defer func() { // else the server does, after a while
			within, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = s.DeleteConsumer(within, info.Name)
		}()
		if info.NumPending == 0 {
			return nil
		}
		all, err := consumer.Messages(jetstream.PullMaxBytes(bulkBytes))
		if err != nil {
			return err
		}
		defer all.Stop()
		for {
			raw, err := all.Next(jetstream.NextContext(ctx))
			if err != nil {
				return err
			}
			at, err := raw.Metadata()
			if err != nil {
				return err
			}
			more := f(message{
				seq: at.Sequence.Stream, subject: raw.Subject(), id: raw.Headers().Get(idHeader),
				after: raw.Headers().Get(nats.ExpectedLastSubjSeqHdr), time: at.Timestamp,
				data: raw.Data(),
			})
			if !more || at.NumPending == 0 {
				return nil
			}
		}
	})
}

// subjects returns the subjects of messages that a filter matches.
func (s stream) subjects(ctx context.Context, filter string) (map[string]uint64, error) {
	var found map[string]uint64
	err := s.in(paceLarge).ask(ctx, func(ctx context.Context, _ bool) error {
		info, err := s.Info(ctx, jetstream.WithSubjectFilter(filter))
		if err == nil {
			found = info.State.Subjects
		}
		return err
	})
	return found, err
}

// A reading is what the clock of the server said, and with which message the stream ended then.
type reading struct {
	now  time.Time
	last uint64
}

// clock asks the leader of the stream for its time.
func (s stream) clock(ctx context.Context) (r reading, err error) {
	err = s.ask(ctx, func(ctx context.Context, _ bool) error {
		info, err := s.Info(ctx)
		if err == nil {
			r = reading{info.TimeStamp, info.State.LastSeq}
		}
		return err
	})
	if err == nil && r.now.IsZero() {
		err = fmt.Errorf("%w: the stream does not tell its time", session.ErrFormat)
	}
	return r, err
}

// purge removes the messages of the subjects that a filter matches, those before a sequence or, if
// that is 0, all.
func (s stream) purge(ctx context.Context, filter string, before uint64) error {
	options := []jetstream.StreamPurgeOpt{jetstream.WithPurgeSubject(filter)}
	if before > 0 {
		options = append(options, jetstream.WithPurgeSequence(before))
	}
	return s.in(paceLarge).ask(ctx, func(ctx context.Context, _ bool) error {
		return s.Purge(ctx, options...)
	})
}

// remove removes one message, if it is still there. A server that will not remove it keeps it: what
// is removed is of no more use, and does no harm.
func (s stream) remove(ctx context.Context, seq uint64) error {
	return s.ask(ctx, func(ctx context.Context, _ bool) error {
		err := s.DeleteMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
			return nil
		}
		return err
	})
}

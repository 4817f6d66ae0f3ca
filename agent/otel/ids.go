package otel

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"go.opentelemetry.io/otel/trace"
)

// IDs makes the ids of spans, for sdktrace.WithIDGenerator: those of an [Exporter] derive from what
// the span is of, and all others are random. Without it a TracerProvider draws ids of its own, and
// [Exporter.Run] returns [ErrNoIDs].
type IDs struct{}

// idsKey is the key under which a context holds the ids of the span that is begun with it.
type idsKey struct{}

type spanIDs struct {
	trace trace.TraceID
	span  trace.SpanID
}

// NewIDs returns the ids of a span without a parent.
func (IDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if ids, ok := ctx.Value(idsKey{}).(spanIDs); ok {
		return ids.trace, ids.span
	}
	var t trace.TraceID
	_, _ = rand.Read(t[:])
	return t, randomSpan()
}

// NewSpanID returns the id of a span of a trace.
func (IDs) NewSpanID(ctx context.Context, of trace.TraceID) trace.SpanID {
	if ids, ok := ctx.Value(idsKey{}).(spanIDs); ok && ids.trace == of {
		return ids.span
	}
	return randomSpan()
}

func randomSpan() (id trace.SpanID) {
	_, _ = rand.Read(id[:])
	return id
}

// TraceID returns the id of the trace of a tree, in hexadecimal digits, by which a backend finds
// it. The namespace is that of the [Config].
func TraceID(namespace string, root session.Key) string {
	id := traceOf(namespace, root)
	return hex.EncodeToString(id[:])
}

// derive returns a hash of words, each with its length in front, so that no two lists of words give
// the same text.
func derive(words ...string) [sha256.Size]byte {
	h := sha256.New()
	for _, w := range words {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(w)))
		h.Write(n[:])
		h.Write([]byte(w))
	}
	var sum [sha256.Size]byte
	h.Sum(sum[:0])
	return sum
}

func traceOf(namespace string, root session.Key) (id trace.TraceID) {
	sum := derive("offshoot trace", namespace, root.String())
	copy(id[:], sum[:])
	return id
}

func spanOf(words ...string) (id trace.SpanID) {
	sum := derive(words...)
	copy(id[:], sum[:])
	return id
}

// treeSpan is the span of a tree, runSpan that of a run, or of the tree for the top-level session.
func treeSpan(root session.Key) trace.SpanID { return spanOf("tree", root.String()) }

func runSpan(root session.Key, run agent.RunID) trace.SpanID {
	if run == "" {
		return treeSpan(root)
	}
	return spanOf("run", string(run))
}

package agenttest

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
)

// A ProviderDialect is the form that the service of one provider has. Its author writes it from the
// provider's reference, and is strict: what the reference does not have is an error.
type ProviderDialect interface {
	// Decode reads a request. An error is a mistake of the Model: the Provider notes it, and
	// answers with a FaultRequest.
	Decode(r *http.Request, body []byte) (ProviderCall, error)
	// Encode writes an answer. It says nothing of FaultCut, FaultEnd and FaultHang, which are those
	// of the connection.
	Encode(c ProviderCall, a ProviderAnswer) ProviderReply
}

// A ProviderReply is an answer in the form of a provider.
type ProviderReply struct {
	Status int // of HTTP; 0: 200
	Header http.Header
	Events [][]byte // the body, piece by piece, as the provider writes them
	Last   int      // how many Events, at the end, say that the answer is complete
}

// maxProviderBody is how many bytes of a request a Provider reads.
const maxProviderBody = 64 << 20

// Handler is the service of the provider in some dialect, for a server of package httptest. What it
// answers comes in pieces that do not care for events, lines and runes.
func (p *Provider) Handler(d ProviderDialect) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.count(1)
		defer p.count(-1)
		var call ProviderCall
		body, err := io.ReadAll(io.LimitReader(r.Body, maxProviderBody))
		if err != nil {
			return // the client has gone
		}
		call, err = d.Decode(r, body)
		var answer ProviderAnswer
		switch {
		case err != nil:
			answer = p.refuse(fmt.Errorf("agenttest: the request is not one that the provider "+
				"understands: %w", err))
		case p.Key != "" && call.Key != p.Key:
			answer = ProviderAnswer{Fault: FaultAccount, Message: "the key is not valid"}
		default:
			call.Body = body
			answer = p.take(call)
		}
		reply := d.Encode(call, answer)
		if answer.Spoiled {
			for i, event := range reply.Events {
				reply.Events[i] = spoiled(event)
			}
		}
		reply.write(w, r, answer.Fault)
	})
}

// spoiled returns a text with a byte that is not UTF-8 in the place of each U+FFFD.
func spoiled(text []byte) []byte {
	return bytes.ReplaceAll(text, []byte("\uFFFD"), []byte{0xff})
}

// write sends the reply as its fault has it.
func (reply *ProviderReply) write(w http.ResponseWriter, r *http.Request, fault ProviderFault) {
	maps.Copy(w.Header(), reply.Header)
	if reply.Status != 0 {
		w.WriteHeader(reply.Status)
	}
	events := reply.Events
	broken := fault == FaultCut || fault == FaultEnd || fault == FaultHang
	if broken {
		events = events[:max(len(events)-reply.Last, 0)]
	}
	rest := bytes.Join(events, nil)
	if fault == FaultCut && len(rest) > 3 {
		rest = rest[:len(rest)-3] // in the middle of an event
	}
	flush := http.NewResponseController(w)
	for n := 0; len(rest) > 0; n++ {
		size := min(oddSizes[n%len(oddSizes)], len(rest))
		if _, err := w.Write(rest[:size]); err != nil {
			return
		}
		if flush.Flush() != nil {
			return
		}
		rest = rest[size:]
	}
	switch fault {
	case FaultCut:
		panic(http.ErrAbortHandler)
	case FaultHang:
		_ = flush.Flush()
		<-r.Context().Done()
	default:
	}
}

// oddSizes are the sizes of the pieces in which a reply comes, over and over.
var oddSizes = [...]int{1, 2, 61, 3, 5, 127, 7, 1, 11, 251, 13}

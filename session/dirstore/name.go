package dirstore

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
)

// A transcript is the file sessions/<agent>/<session id>.jsonl. The character ~ stands in no
// agent's id and no session id, so whatever has it cannot be what another key or id is called:
//
//	~global            the directory of the global session, which has no agent
//	~con, ~nul.jsonl   names that Windows keeps for itself
//	<id>~<hash>.jsonl  a session id that another session uses too, also one that differs by case where the disk does not care

const transcriptSuffix = ".jsonl"

// agentDir returns the name of the directory for the transcripts of an agent.
func agentDir(k session.Key) string {
	if k.Agent() == "" {
		return "~" + session.GlobalKey().String()
	}
	return unreserved(k.Agent())
}

// transcriptNames returns the names that the file of a transcript may have, the one to try first in
// front.
func transcriptNames(ref session.Ref) [2]string {
	sum := sha256.Sum256([]byte(ref.Key.String() + "\x00" + ref.SessionID))
	base := unreserved(ref.SessionID)
	return [2]string{base + transcriptSuffix, base + "~" + hex.EncodeToString(sum[:8]) + transcriptSuffix}
}

// unreserved changes a name that is that of a device on Windows.
func unreserved(name string) string {
	stem, _, _ := strings.Cut(strings.ToLower(name), ".")
	switch stem {
	case "con", "prn", "aux", "nul":
		return "~" + name
	}
	if len(stem) == 4 && (stem[:3] == "com" || stem[:3] == "lpt") && '0' <= stem[3] && stem[3] <= '9' {
		return "~" + name
	}
	return name
}

const (
	transcriptVersion = 1
	maxTranscriptHead = 8 << 10 // bytes; a key has at most 1,024, and no byte of it takes more than six in JSON
)

// A transcriptHead is the first line of a transcript. A reader that takes lines as messages sees a
// note that concerns nothing.
type transcriptHead struct {
	Role       session.MessageRole `json:"role"`
	Discard    session.Pos         `json:"discard"`
	Transcript *transcriptID       `json:"transcript"`
}

type transcriptID struct {
	Version   int    `json:"version"`
	Key       string `json:"key"`
	SessionID string `json:"sessionId"`
}

// headLine returns the first line of a transcript.
func headLine(ref session.Ref) ([]byte, error) {
	id := transcriptID{Version: transcriptVersion, Key: ref.Key.String(), SessionID: ref.SessionID}
	line, err := json.Marshal(transcriptHead{Role: session.MessageNote, Transcript: &id})
	return append(line, '\n'), err
}

// parseHeadLine returns whose transcript begins with a line.
func parseHeadLine(path string, line []byte) (transcriptID, error) {
	var h transcriptHead
	if err := json.Unmarshal(line, &h); err != nil || h.Transcript == nil {
		return transcriptID{}, &session.CorruptError{File: path, Reason: "the first line is not that of a transcript"}
	}
	if h.Transcript.Version != transcriptVersion {
		return transcriptID{}, fmt.Errorf("%w: %w", session.ErrFormat, &wal.FormatError{File: path, What: fmt.Sprintf("transcript version %d", h.Transcript.Version)})
	}
	return *h.Transcript, nil
}

// is reports whether a transcript is that of ref.
func (id transcriptID) is(ref session.Ref) bool {
	return id.Key == ref.Key.String() && id.SessionID == ref.SessionID
}

package dirstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
)

// A transcript is the file sessions/<agent>/<session id>.jsonl. Neither the id of an agent nor a
// session id has the character ~. So a name with ~ is never the plain name of another agent or
// transcript:
//
//	~global            the directory of the global session, which has no agent
//	~con, ~nul.jsonl   names that Windows reserves for devices
//	<id>~<hash>.jsonl  a session id whose plain name another session has already;
//	                   ids that differ by case have one name where the disk ignores case
const transcriptSuffix = ".jsonl"

// filesSuffix ends the name of a directory for the files of a transcript. The directory always has
// the name with the hash, <session id>~<hash>.files: it has no first line that says whose it is, as
// a transcript has, and two sessions may have one session id.
const filesSuffix = ".files"

// filesDirName returns the name of the directory for the files of a transcript.
func filesDirName(ref session.Ref) string {
	return strings.TrimSuffix(transcriptNames(ref)[1], transcriptSuffix) + filesSuffix
}

// isFilesDir reports whether filesDirName returns such a name, or an archived directory has it. A
// session id has no ~, so that the last one is the one before the hash.
func isFilesDir(name string) bool {
	at := strings.LastIndexByte(name, '~')
	hash, rest, ok := strings.Cut(name[at+1:], ".")
	_, err := hex.DecodeString(hash)
	return at >= 0 && ok && err == nil && len(hash) == nameHashLen &&
		("."+rest == filesSuffix || strings.HasPrefix("."+rest, filesSuffix+".deleted."))
}

// nameHashLen is the number of characters of the hash in a name.
const nameHashLen = 16

// isFileName reports whether name is that of a kept file: its SHA-256.
func isFileName(name string) bool { return session.File{Hash: name}.Validate() == nil }

// agentDir returns the name of the directory for the transcripts of the agent of k.
func agentDir(k session.Key) string {
	if k.Agent() == "" {
		return "~" + session.GlobalKey().String()
	}
	return portableName(k.Agent())
}

// A refID stands for a transcript: the beginning of the SHA-256 of its Ref.
type refID [16]byte

func idOfRef(ref session.Ref) refID {
	var room [256]byte // for most: a key with the id of a sub-agent has about 60 bytes
	text := append(append(append(room[:0], ref.Key.String()...), 0), ref.SessionID...)
	sum := sha256.Sum256(text)
	return refID(sum[:])
}

// transcriptNames returns the two names that the file of a transcript may have. The file gets the
// second one if another transcript has the first.
func transcriptNames(ref session.Ref) [2]string { return idOfRef(ref).names(ref) }

// names is transcriptNames for a caller that has the id of ref.
func (id refID) names(ref session.Ref) [2]string {
	base := portableName(ref.SessionID)
	var hash [nameHashLen]byte
	hex.Encode(hash[:], id[:nameHashLen/2])
	return [2]string{base + transcriptSuffix, base + "~" + string(hash[:]) + transcriptSuffix}
}

// namesOf returns the names of the transcript of x, which are worked out once.
func (x *transcriptState) namesOf(ref session.Ref) [2]string {
	if x.names[0] == "" {
		x.names = x.id.names(ref)
	}
	return x.names
}

// portableName puts ~ in front of a name that is a device on Windows.
func portableName(name string) string {
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
	placedVersion     = 2 // see placeMember

	// maxTranscriptHead is the most bytes of the first line. A key has at most 1,024 bytes, and
	// JSON takes at most six for each of them.
	maxTranscriptHead = 8 << 10
)

// A transcriptHead is the first line of a transcript. A reader that takes every line for a message
// sees a note that discards nothing.
type transcriptHead struct {
	Role       session.MessageRole `json:"role"`
	Discard    session.Pos         `json:"discard"`
	Transcript *transcriptID       `json:"transcript"`
}

// A transcriptID says which transcript a file has.
type transcriptID struct {
	Version   int    `json:"version"`
	Key       string `json:"key"`
	SessionID string `json:"sessionId"`
}

// headLine returns the first line of a transcript, with its newline.
func headLine(ref session.Ref, version int) ([]byte, error) {
	id := transcriptID{Version: version, Key: ref.Key.String(), SessionID: ref.SessionID}
	line, err := json.Marshal(transcriptHead{Role: session.MessageNote, Transcript: &id})
	return append(line, '\n'), err
}

// versionOf returns the version of a transcript whose lines have positions of their own, or do not.
func versionOf(placed bool) int {
	if placed {
		return placedVersion
	}
	return transcriptVersion
}

// parseHeadLine returns the transcriptID in the first line of the file at path. The error is a
// *[session.CorruptError], or [session.ErrFormat] for another version.
func parseHeadLine(path string, line []byte) (transcriptID, error) {
	var h transcriptHead
	if err := json.Unmarshal(line, &h); err != nil || h.Transcript == nil ||
		h.Transcript.Version < 1 {
		const reason = "the first line is not that of a transcript"
		return transcriptID{}, &session.CorruptError{File: path, Reason: reason}
	}
	if h.Transcript.Version > placedVersion {
		what := fmt.Sprintf("transcript version %d", h.Transcript.Version)
		format := &wal.FormatError{File: path, What: what}
		return transcriptID{}, fmt.Errorf("%w: %w", session.ErrFormat, format)
	}
	return *h.Transcript, nil
}

// checkName returns a *[session.CorruptError] if the transcript of id never had the file name of
// path. A disk that ignores case may have changed that. The name of an archived file is not
// checked.
func (id transcriptID) checkName(path string) error {
	if !strings.HasSuffix(path, transcriptSuffix) || id.isLost() {
		return nil
	}
	key, err := session.Parse(id.Key)
	if err == nil {
		dir, base := filepath.Split(strings.ToLower(path))
		for _, name := range transcriptNames(session.Ref{Key: key, SessionID: id.SessionID}) {
			if base == strings.ToLower(name) &&
				filepath.Base(dir) == strings.ToLower(agentDir(key)) {
				return nil
			}
		}
	}
	reason := fmt.Sprintf("the first line is that of transcript %q of %q, which has another name",
		id.SessionID, id.Key)
	return &session.CorruptError{File: path, Reason: reason}
}

// isOf reports whether a file with id in its first line, of so many bytes, is the transcript of
// ref. If id is lost, that is what the name of the file and the length of the line say. Then
// another says that the first of the names of ref is that of another transcript.
func (id transcriptID) isOf(ref session.Ref, path string, head int64, another bool) bool {
	if !id.isLost() {
		return id.Key == ref.Key.String() && id.SessionID == ref.SessionID
	}
	base := strings.ToLower(filepath.Base(path))
	if mark := strings.LastIndex(base, archiveMark); mark >= 0 {
		base = base[:mark] + transcriptSuffix
	}
	names := transcriptNames(ref)
	want, err := headLine(ref, id.Version)
	return err == nil && head == int64(len(want)) &&
		(base == strings.ToLower(names[1]) || base == strings.ToLower(names[0]) && !another)
}

// isLost reports whether id is that of lostHeadLine.
func (id transcriptID) isLost() bool { return id.Key == "" && id.SessionID == "" }

// lostHeadLine returns the first line of n bytes of a transcript of which only the name tells whose
// it is, or nil if n is less than any first line has.
func lostHeadLine(n, version int) []byte {
	line, err := headLine(session.Ref{}, version)
	if err != nil || n <= len(line) {
		return nil
	}
	end := len(line) - 1
	return append(append(line[:end:end], bytes.Repeat([]byte{' '}, n-len(line))...), '\n')
}

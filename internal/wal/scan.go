package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/offshoot-sdk/offshoot/internal/disk"
)

// chunk is how much of a file is read at once, in bytes.
const chunk = 256 << 10

// A Replay is called with each frame of a file, in order. The payload is the caller's until it returns. Its error refuses the file, as a
// [FormatError] if it is one, else as a [CorruptError].
type Replay func(Span, Kind, []byte) error

// A Report says what a file holds.
type Report struct {
	File   string // path
	Bytes  int64  // without what is torn
	Frames int    // without seals
	Torn   int64  // bytes at the end that nobody was ever told of
	Sealed bool   // ends with a proof that everything before is durable
}

// A scan goes through a file from its beginning.
type scan struct {
	name string
	f    disk.File
	size int64
	id   uint64

	buf   []byte
	start int64 // the offset of buf

	end    int64 // of the last frame that is intact
	proved int64 // up to where a frame says that the file was durable
	frames int
	sealed bool // the last frame is a seal
}

// run replays every frame that is intact. It returns nil if what follows them, if anything, is torn.
func (s *scan) run(replay Replay) error {
	head, err := s.bytes(0, headLen)
	if err != nil {
		return err
	}
	if s.id, err = fileHead(s.name, head); err != nil {
		return err
	}
	s.end, s.proved = headLen, headLen
	var unit []framed // appended together, and not all of it seen yet
	for off := s.end; off < s.size; {
		head, payload, err := s.frame(off)
		if errors.Is(err, errBroken) {
			return s.torn(off)
		}
		if err == nil {
			err = head.known(s.name)
		}
		if err != nil {
			return err
		}
		off += frameLen + int64(head.length)
		s.proved = max(s.proved, head.synced)
		if head.more {
			unit = append(unit, framed{head, bytes.Clone(payload)})
			continue
		}
		for _, f := range append(unit, framed{head, payload}) {
			if err := s.replay(replay, f.head, f.payload); err != nil {
				return err
			}
		}
		unit = unit[:0]
		s.sealed = head.kind == seal
		s.end = off
	}
	return nil
}

// A framed is a frame.
type framed struct {
	head    frameHead
	payload []byte
}

func (s *scan) replay(replay Replay, head frameHead, payload []byte) error {
	if head.kind == seal {
		return nil
	}
	s.frames++
	err := replay(Span{Off: head.off, Len: head.length}, head.kind, payload)
	if format, ok := errors.AsType[*FormatError](err); ok {
		format.File, format.Offset = s.name, head.off
		return format
	}
	if err != nil {
		return &CorruptError{File: s.name, Offset: head.off, Reason: err.Error(), Err: err}
	}
	return nil
}

func (s *scan) report() Report {
	return Report{File: s.name, Bytes: s.end, Frames: s.frames, Torn: s.size - s.end, Sealed: s.sealed && s.end == s.size}
}

var errBroken = errors.New("wal: frame is broken")

// frame reads the frame at off. The error is errBroken if there is none.
func (s *scan) frame(off int64) (h frameHead, payload []byte, err error) {
	head, err := s.bytes(off, frameLen)
	if err != nil {
		return h, nil, err
	}
	h, ok := parseHead(head, s.id, off)
	if !ok || h.length > MaxPayload || off+frameLen+int64(h.length) > s.size {
		return h, nil, errBroken
	}
	whole, err := s.bytes(off, frameLen+int(h.length))
	if err != nil {
		return h, nil, err
	}
	if payload = whole[frameLen:]; checksum(payload) != h.sum {
		return h, nil, errBroken
	}
	return h, payload, nil
}

// bytes returns n bytes at off, fewer at the end of the file, good until it is called again.
func (s *scan) bytes(off int64, n int) ([]byte, error) {
	if have := s.start + int64(len(s.buf)); off < s.start || off+int64(n) > have && have < s.size {
		want := min(int64(max(n, chunk)), s.size-off)
		if int64(cap(s.buf)) < want {
			s.buf = make([]byte, want)
		}
		s.buf, s.start = s.buf[:want], off
		if got, err := s.f.ReadAt(s.buf, off); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("wal: read %s: %w", s.name, err)
		} else if int64(got) < want { // it has become shorter since it was measured
			s.buf = s.buf[:got]
			s.size = off + int64(got)
		}
	}
	rest := s.buf[min(off-s.start, int64(len(s.buf))):]
	return rest[:min(n, len(rest))], nil
}

// torn returns nil if no frame proves that the file was once durable beyond the offset at which it is broken.
func (s *scan) torn(broken int64) error {
	var id [8]byte
	binary.LittleEndian.PutUint64(id[:], s.id)
	for off := broken + 1; ; off += chunk - frameLen + 1 {
		part, err := s.bytes(off, chunk)
		if err != nil {
			return err
		}
		for at := 0; ; at++ {
			next := bytes.Index(part[min(at+offsetOfID, len(part)):], id[:])
			if next < 0 {
				break
			}
			at += next
			if h, ok := parseHead(part[at:], s.id, off+int64(at)); ok && h.synced > broken {
				return &CorruptError{
					File: s.name, Offset: broken,
					Reason: fmt.Sprintf("the frame is broken, and one at byte %d proves that it was whole", h.off),
				}
			}
		}
		if len(part) < chunk {
			return nil
		}
	}
}

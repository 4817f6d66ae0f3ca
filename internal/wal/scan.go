package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/offshoot-sdk/offshoot/internal/disk"
)

// chunkSize is the number of bytes that are read or written at once.
const chunkSize = 256 << 10

// A Replay is called with each frame of a file, in order. It must not keep the payload. Its error
// refuses the file: a [FormatError] stays one, any other error becomes a [CorruptError].
type Replay func(Span, Kind, []byte) error

// A Report describes a file.
type Report struct {
	File   string // path
	Bytes  int64  // length without the torn tail
	Frames int    // number of frames without seals
	Torn   int64  // bytes of the torn tail, which were never acknowledged
	Sealed bool   // a seal ends the file
}

// A scan reads a file from its beginning.
type scan struct {
	name string
	f    disk.File
	size int64 // of the file, without its room once that is found
	id   uint64

	buf   []byte
	start int64 // offset of buf in the file

	end    int64 // of the last intact frame that is not half of an append
	proved int64 // the highest synced offset so far
	frames int
	sealed bool // the last frame is a seal

	gen  uint64  // the number in the name of the file, if mark is set
	mark endMark // of the directory
}

// run replays every intact frame. It returns nil if the rest of the file, if there is one, is torn.
func (s *scan) run(replay Replay) error {
	broken, err := s.frameByFrame(replay)
	if err == nil {
		err = s.mark.check(s, s.gen, s.end, broken)
	}
	return err
}

// frameByFrame is run without the mark. It returns the offset of the first frame that is broken, or
// the size of the file without its room.
func (s *scan) frameByFrame(replay Replay) (broken int64, err error) {
	head, err := s.bytes(0, headLen)
	if err != nil {
		return 0, err
	}
	if s.id, err = fileHead(s.name, head); err != nil {
		return 0, err
	}
	s.end, s.proved = headLen, headLen
	var unit []bufferedFrame // the frames of one append, until its last one is read
	for off := s.end; off < s.size; {
		head, payload, err := s.frame(off)
		if errors.Is(err, errBroken) {
			if s.size, err = trimRoom(s.f, s.name, off, s.size); err != nil {
				return off, err
			}
			return off, s.checkTorn(off)
		}
		if err == nil {
			err = head.checkKnown(s.name)
		}
		if err != nil {
			return off, err
		}
		off += frameLen + int64(head.length)
		s.proved = max(s.proved, head.synced)
		if head.more {
			unit = append(unit, bufferedFrame{head, bytes.Clone(payload)})
			continue
		}
		for _, f := range append(unit, bufferedFrame{head, payload}) {
			if err := s.replay(replay, f.head, f.payload); err != nil {
				return f.head.off, err
			}
		}
		unit = unit[:0]
		s.sealed = head.kind == kindSeal
		s.end = off
	}
	return s.size, nil
}

// A bufferedFrame is a frame that waits for the last one of its append.
type bufferedFrame struct {
	head    frameHead
	payload []byte
}

// replay calls the Replay with one frame, and gives its error the place of the frame.
func (s *scan) replay(replay Replay, head frameHead, payload []byte) error {
	if head.kind == kindSeal {
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

// report describes what was read so far.
func (s *scan) report() Report {
	return Report{
		File: s.name, Bytes: s.end, Frames: s.frames, Torn: s.size - s.end,
		Sealed: s.sealed && s.end == s.size,
	}
}

// errBroken is returned by scan.frame.
var errBroken = errors.New("wal: frame is broken")

// frame reads the frame at off. The error is errBroken if there is not an intact one. The payload
// is good until the next read.
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

// bytes returns n bytes at off, or fewer at the end of the file. They are good until the next call.
func (s *scan) bytes(off int64, n int) ([]byte, error) {
	if have := s.start + int64(len(s.buf)); off < s.start || off+int64(n) > have && have < s.size {
		want := min(int64(max(n, chunkSize)), s.size-off)
		if int64(cap(s.buf)) < want {
			s.buf = make([]byte, want)
		}
		s.buf, s.start = s.buf[:want], off
		if got, err := s.f.ReadAt(s.buf, off); err != nil && !errors.Is(err, io.EOF) {
			return nil, fileError("read", s.name, err)
		} else if int64(got) < want { // the file has become shorter meanwhile
			s.buf = s.buf[:got]
			s.size = off + int64(got)
		}
	}
	rest := s.buf[min(off-s.start, int64(len(s.buf))):]
	return rest[:min(n, len(rest))], nil
}

// checkTorn returns nil if the file is torn at the offset broken. It searches the rest of the file
// for a frame that proves that the file was durable beyond that offset. The error is a
// [CorruptError] if there is one.
//
// The frame may stand at its own offset, or at another one: then bytes before it were removed or
// inserted. A payload that has earlier bytes of this very file proves nothing, because the frames
// in it were written when the file was durable up to themselves at most, which is before broken.
func (s *scan) checkTorn(broken int64) error {
	return s.search(broken+1, func(at int64, b []byte) error {
		h, ok := decodeHead(b)
		if !ok || h.id != s.id || h.synced <= broken {
			return nil
		}
		reason := fmt.Sprintf("the frame is broken, and one at byte %d proves that it was intact", at)
		if h.off != at {
			reason = fmt.Sprintf("bytes were removed or inserted here: the frame of byte %d is at byte %d",
				h.off, at)
		}
		return &CorruptError{File: s.name, Offset: broken, Reason: reason}
	})
}

// search calls f with every place from an offset on at which the head of a frame of this file may
// be, and the bytes of that head. It stops at the first error and returns it.
func (s *scan) search(from int64, f func(at int64, b []byte) error) error {
	var id [8]byte
	binary.LittleEndian.PutUint64(id[:], s.id)
	for off := from; ; off += chunkSize - frameLen + 1 {
		part, err := s.bytes(off, chunkSize)
		if err != nil {
			return err
		}
		for at := 0; ; at++ {
			next := bytes.Index(part[min(at+frameIDOffset, len(part)):], id[:])
			if next < 0 {
				break
			}
			at += next
			if at+frameLen > len(part) {
				continue // not a whole head, or that of the next part
			}
			if err := f(off+int64(at), part[at:at+frameLen]); err != nil {
				return err
			}
		}
		if len(part) < chunkSize {
			return nil
		}
	}
}

package wal

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

const (
	magic         = "offshoot wal"
	version       = 1
	headLen       = 32 // bytes of the header of a file
	frameLen      = 40 // bytes of the head of a frame
	frameIDOffset = 16 // of the file's id in the head of a frame
)

// MaxPayload is the greatest length of a payload, in bytes.
const MaxPayload = 1 << 30

func checkSize(payload []byte, limit int) error {
	if len(payload) > limit {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(payload), limit)
	}
	return nil
}

// A Kind says what a payload is. The kinds below [FirstKind] are reserved for the log.
type Kind uint8

// FirstKind is the first kind that a caller may use.
const FirstKind Kind = 16

// kindSeal is the kind of a frame without a payload. Its synced offset says that everything before
// it is durable.
const kindSeal Kind = 1

// A Span is the place of a frame in a file.
type Span struct {
	Off int64  // of the frame, in bytes
	Len uint32 // of the payload, in bytes
}

// Size returns the number of bytes that the frame takes in the file.
func (s Span) Size() int64 { return frameLen + int64(s.Len) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// newID returns a random id for a new file.
func newID() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

// appendFileHead adds the header of a file.
func appendFileHead(b []byte, id uint64) []byte {
	start := len(b)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = binary.LittleEndian.AppendUint64(b, id)
	b = binary.LittleEndian.AppendUint32(b, 0)
	return binary.LittleEndian.AppendUint32(b, checksum(b[start:]))
}

// fileHead returns the id in the header of a file. The header is the beginning of b.
func fileHead(name string, b []byte) (id uint64, err error) {
	if len(b) < headLen || !bytes.HasPrefix(b, []byte(magic)) ||
		checksum(b[:headLen-4]) != binary.LittleEndian.Uint32(b[headLen-4:]) {
		return 0, &CorruptError{File: name, Reason: "the header of the log is missing or broken"}
	}
	if v := binary.LittleEndian.Uint32(b[len(magic):]); v != version {
		return 0, &FormatError{File: name, What: fmt.Sprintf("file version %d", v)}
	}
	return binary.LittleEndian.Uint64(b[len(magic)+4:]), nil
}

// flagMore says that the next frame belongs to the same append. The frame counts only together with
// that one.
const flagMore = 1

// A frameHead is the head of a frame.
type frameHead struct {
	version uint8
	kind    Kind
	more    bool   // see flagMore
	length  uint32 // of the payload, in bytes
	sum     uint32 // CRC of the payload
	id      uint64 // of the file
	off     int64  // of the frame
	synced  int64  // the file was durable up to this offset when the frame was written
}

// append adds the bytes of h.
// payloadHead returns the head of a frame with a payload. It has no place in a file yet.
func payloadHead(kind Kind, payload []byte) frameHead {
	return frameHead{
		version: version, kind: kind, length: uint32(len(payload)), sum: checksum(payload),
	}
}

// append adds the bytes of h to b.
func (h frameHead) append(b []byte) []byte {
	start := len(b)
	flags := uint16(0)
	if h.more {
		flags = flagMore
	}
	b = append(b, 0, 0, 0, 0, h.version, byte(h.kind))
	b = binary.LittleEndian.AppendUint16(b, flags)
	b = binary.LittleEndian.AppendUint32(b, h.length)
	b = binary.LittleEndian.AppendUint32(b, h.sum)
	b = binary.LittleEndian.AppendUint64(b, h.id)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.off))
	b = binary.LittleEndian.AppendUint64(b, uint64(h.synced))
	binary.LittleEndian.PutUint32(b[start:], checksum(b[start+4:]))
	return b
}

// parseHead reads the head of the frame at off of the file with this id. The frame begins with b.
// ok is false unless every bit of the head is as it was written there.
func parseHead(b []byte, id uint64, off int64) (h frameHead, ok bool) {
	h, ok = decodeHead(b)
	return h, ok && h.id == id && h.off == off
}

// decodeHead reads the head of a frame of any file, which may stand anywhere. ok is false unless
// every bit of the head is as it was written.
func decodeHead(b []byte) (h frameHead, ok bool) {
	if len(b) < frameLen || checksum(b[4:frameLen]) != binary.LittleEndian.Uint32(b) {
		return h, false
	}
	flags := binary.LittleEndian.Uint16(b[6:])
	h = frameHead{
		version: b[4],
		kind:    Kind(b[5]),
		more:    flags&flagMore != 0,
		length:  binary.LittleEndian.Uint32(b[8:]),
		sum:     binary.LittleEndian.Uint32(b[12:]),
		id:      binary.LittleEndian.Uint64(b[frameIDOffset:]),
		off:     int64(binary.LittleEndian.Uint64(b[24:])),
		synced:  int64(binary.LittleEndian.Uint64(b[32:])),
	}
	if flags&^flagMore != 0 && h.version == version {
		h.version = 0 // an unknown flag is refused like an unknown version
	}
	return h, true
}

// checkKnown returns a [FormatError] if this version does not know the version or the kind of an
// intact frame.
func (h frameHead) checkKnown(name string) error {
	switch {
	case h.version != version:
		what := fmt.Sprintf("frame version %d", h.version)
		return &FormatError{File: name, Offset: h.off, What: what}
	case h.kind < FirstKind && h.kind != kindSeal:
		what := fmt.Sprintf("frame kind %d", h.kind)
		return &FormatError{File: name, Offset: h.off, What: what}
	}
	return nil
}

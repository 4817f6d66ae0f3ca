package wal

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

const (
	magic      = "offshoot wal"
	version    = 1
	headLen    = 32 // of a file
	frameLen   = 40 // of a frame, before its payload
	offsetOfID = 16 // in a frame
)

// MaxPayload is the greatest length of a payload, in bytes.
const MaxPayload = 1 << 30

func checkSize(payload []byte, limit int) error {
	if len(payload) > limit {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(payload), limit)
	}
	return nil
}

// A Kind says what a payload is. Those below [FirstKind] are the log's own.
type Kind uint8

// FirstKind is the first kind that is free for the caller.
const FirstKind Kind = 16

// seal is a frame without payload that says by its synced offset that everything before it is durable.
const seal Kind = 1

// A Span is where a frame stands in a file.
type Span struct {
	Off int64
	Len uint32 // of the payload
}

// Size returns how many bytes of the file the frame takes.
func (s Span) Size() int64 { return frameLen + int64(s.Len) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// newID returns the id of a new file.
func newID() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

func appendFileHead(b []byte, id uint64) []byte {
	start := len(b)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = binary.LittleEndian.AppendUint64(b, id)
	b = binary.LittleEndian.AppendUint32(b, 0)
	return binary.LittleEndian.AppendUint32(b, checksum(b[start:]))
}

// fileHead returns the id of a file whose first bytes are b.
func fileHead(name string, b []byte) (id uint64, err error) {
	if len(b) < headLen || !bytes.HasPrefix(b, []byte(magic)) || checksum(b[:headLen-4]) != binary.LittleEndian.Uint32(b[headLen-4:]) {
		return 0, &CorruptError{File: name, Reason: "no log begins here"}
	}
	if v := binary.LittleEndian.Uint32(b[len(magic):]); v != version {
		return 0, &FormatError{File: name, What: fmt.Sprintf("file version %d", v)}
	}
	return binary.LittleEndian.Uint64(b[len(magic)+4:]), nil
}

// flagMore says that the frame is nothing without the one after it: they were appended together.
const flagMore = 1

// A frameHead is what a frame says of itself.
type frameHead struct {
	version uint8
	kind    Kind
	more    bool // the frame is nothing without the next one
	length  uint32
	sum     uint32 // of the payload
	id      uint64
	off     int64
	synced  int64
}

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

// parseHead reads the head of the frame of a file that begins with b and at off. It fails unless every bit of it is as written.
func parseHead(b []byte, id uint64, off int64) (h frameHead, ok bool) {
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
		id:      binary.LittleEndian.Uint64(b[offsetOfID:]),
		off:     int64(binary.LittleEndian.Uint64(b[24:])),
		synced:  int64(binary.LittleEndian.Uint64(b[32:])),
	}
	if flags&^flagMore != 0 && h.version == version {
		h.version = 0 // as unknown as a version
	}
	return h, h.id == id && h.off == off
}

// known returns an error if a frame that is intact is none of this version's.
func (h frameHead) known(name string) error {
	switch {
	case h.version != version:
		return &FormatError{File: name, Offset: h.off, What: fmt.Sprintf("frame version %d", h.version)}
	case h.kind < FirstKind && h.kind != seal:
		return &FormatError{File: name, Offset: h.off, What: fmt.Sprintf("frame kind %d", h.kind)}
	}
	return nil
}

package wal

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/offshoot-sdk/offshoot/internal/disk"
)

// A Salvage is what is intact in a file of frames, wherever it stands there.
type Salvage struct {
	File    string   // path
	Records []Record // in the order in which they were written, of whole appends only
	Damaged []Part   // the bytes between the intact frames
	gen     uint64   // no log has a greater number: that of the log, or of the one that is missing
}

// A Part is a damaged part of a file.
type Part struct {
	From, To int64  // offsets
	Payload  []byte // what the payload of the frame at From has become; nil: its head is damaged
}

// SalvageLog reads the newest log of a directory. It returns no Records if there is none, or if the
// file is not the log that was closed: what another program put in its place belongs to no tree of
// the directory. The error is a [FormatError] if a newer version has written a frame, or that of
// the file system.
func SalvageLog(fsys disk.FS, dir string) (Salvage, error) {
	mark, err := knownMark(fsys, dir)
	if err != nil {
		return Salvage{}, err
	}
	gens, _, err := generations(fsys, dir)
	if err != nil {
		return Salvage{}, err
	}
	if len(gens) == 0 {
		gen := max(mark.gen, 1)
		return Salvage{File: fileName(dir, gen), gen: gen}, nil
	}
	gen := gens[len(gens)-1]
	id := uint64(0)
	if mark.gen == gen {
		id = mark.id
	}
	s, err := salvageFile(fsys, fileName(dir, gen), id)
	s.gen = max(gen, mark.gen)
	return s, err
}

// SalvageFile reads a file of frames, as [SalvageLog] does.
func SalvageFile(fsys disk.FS, name string) (Salvage, error) {
	return salvageFile(fsys, name, 0)
}

// salvageFile is SalvageFile for a file that must have an id. Zero stands for any id.
func salvageFile(fsys disk.FS, name string, id uint64) (s Salvage, err error) {
	s.File = name
	f, err := fsys.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return s, fmt.Errorf("wal: %w", err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	size, err := f.Size()
	if err != nil {
		return s, fmt.Errorf("wal: %w", err)
	}
	heads := scan{name: name, f: f, size: size}
	start, err := heads.findID(id)
	if err != nil {
		return s, err
	}
	found, damaged, err := heads.intactFrames(start)
	if err != nil {
		return s, err
	}
	s.Damaged = damaged
	s.Records = wholeAppends(found)
	return s, nil
}

// findID sets the id of the frames to want, or if that is zero to the id of the file. It returns
// the offset at which they begin: behind the header, or 0 if the header is not that of the id.
func (s *scan) findID(want uint64) (start int64, err error) {
	s.id, err = s.readID()
	if err == nil && (want == 0 || s.id == want) {
		return headLen, nil
	}
	if _, ok := errors.AsType[*CorruptError](err); err != nil && !ok {
		return 0, err
	}
	if s.id, err = want, nil; want == 0 {
		s.id, err = s.guessID()
	}
	return 0, err
}

// readID returns the id in the header of the file.
func (s *scan) readID() (uint64, error) {
	head, err := s.bytes(0, headLen)
	if err != nil {
		return 0, err
	}
	return fileHead(s.name, head)
}

// guessID returns the id of the first frame that has an intact head at its own offset, or 0.
func (s *scan) guessID() (uint64, error) {
	for off := int64(0); ; off += chunkSize - frameLen + 1 {
		part, err := s.bytes(off, chunkSize)
		if err != nil {
			return 0, err
		}
		for at := 0; at+frameLen <= len(part); at++ {
			if part[at+4] != version {
				continue
			}
			if h, ok := decodeHead(part[at:]); ok && h.off == off+int64(at) {
				return h.id, nil
			}
		}
		if len(part) < chunkSize {
			return 0, nil
		}
	}
}

// intactFrames returns the intact frames from an offset on, also those that stand at another place
// than their own, and the parts between them.
func (s *scan) intactFrames(from int64) (found []bufferedFrame, damaged []Part, err error) {
	payloads := scan{name: s.name, f: s.f, size: s.size, id: s.id}
	end := from
	err = s.search(from, func(at int64, b []byte) error {
		h, ok := decodeHead(b)
		if at < end || !ok || h.id != s.id { // a frame within a payload is not one
			return nil
		}
		if err := h.checkKnown(s.name); err != nil {
			return err
		}
		payload, err := payloads.payloadAt(at, h)
		if err != nil {
			return err
		}
		if payload == nil {
			return nil
		}
		if at > end {
			part, err := payloads.part(end, at)
			if err != nil {
				return err
			}
			damaged = append(damaged, part)
		}
		found = append(found, bufferedFrame{h, bytes.Clone(payload)})
		end = at + frameLen + int64(h.length)
		return nil
	})
	if err == nil && end < s.size {
		var part Part
		part, err = payloads.part(end, s.size)
		damaged = append(damaged, part)
	}
	return found, damaged, err
}

// payloadAt returns the payload of the frame with the head h at an offset, or nil if it is not
// intact.
func (s *scan) payloadAt(at int64, h frameHead) ([]byte, error) {
	if h.length > MaxPayload || at+frameLen+int64(h.length) > s.size {
		return nil, nil
	}
	b, err := s.bytes(at, frameLen+int(h.length))
	if err != nil || len(b) < frameLen+int(h.length) || checksum(b[frameLen:]) != h.sum {
		return nil, err
	}
	return b[frameLen:], nil
}

// part describes a damaged part of the file.
func (s *scan) part(from, to int64) (Part, error) {
	p := Part{From: from, To: to}
	head, err := s.bytes(from, frameLen)
	if err != nil {
		return p, err
	}
	if h, ok := decodeHead(head); ok && h.id == s.id {
		b, err := s.bytes(from, int(min(to-from, frameLen+int64(h.length), MaxPayload)))
		if err != nil {
			return p, err
		}
		p.Payload = bytes.Clone(b[frameLen:])
	}
	return p, nil
}

// wholeAppends returns the records of the frames in the order of their own offsets, without seals
// and without those of an append that is not whole.
func wholeAppends(found []bufferedFrame) (records []Record) {
	slices.SortStableFunc(found, func(a, b bufferedFrame) int {
		return cmp.Compare(a.head.off, b.head.off)
	})
	var unit []Record
	next := int64(-1)
	for i, f := range found {
		if i > 0 && found[i-1].head.off == f.head.off {
			continue // it was repeated
		}
		if f.head.off != next {
			unit = unit[:0] // if there are frames in it, the rest of their append is missing
		}
		next = f.head.off + frameLen + int64(f.head.length)
		if f.head.kind == kindSeal {
			continue
		}
		unit = append(unit, Record{Kind: f.head.kind, Payload: f.payload})
		if !f.head.more {
			records = append(records, unit...)
			unit = unit[:0]
		}
	}
	return records
}

// Replace makes a new log in the place of the one that was salvaged. If keep is set, it copies the
// old one aside first and returns the path of the copy, or "" if there was no old one. The caller
// owns the directory. A crash leaves the old log, or the new one and the copy.
func (s Salvage) Replace(
	fsys disk.FS, dir string, keep bool, write func(*Writer) error,
) (aside string, err error) {
	if keep {
		if aside, err = copyAside(fsys, s.File); err != nil {
			return "", err
		}
	}
	if err := WriteFile(fsys, fileName(dir, s.gen+1), write); err != nil {
		return aside, err
	}
	if err := fsys.SyncDir(dir); err != nil {
		return aside, err
	}
	if err := fsys.Remove(s.File); err != nil && !isNotExist(err) {
		return aside, fmt.Errorf("wal: %w", err)
	}
	return aside, nil
}

// copyAside copies a file to name.torn.0, or to name.torn.0.1 and so on, durably. It replaces a
// copy of the same length, which an earlier call has made. It returns "" if the file does not
// exist.
func copyAside(fsys disk.FS, name string) (string, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	size, err := f.Size()
	if err != nil {
		return "", err
	}
	aside := name + ".torn.0"
	for n := 1; ; n++ {
		info, err := fsys.Lstat(aside)
		if err != nil || info.Size() == size {
			break
		}
		aside = fmt.Sprintf("%s.torn.0.%d", name, n)
	}
	out, err := fsys.OpenFile(aside+tmpSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return "", err
	}
	b := make([]byte, chunkSize)
	for at := int64(0); err == nil; {
		var n int
		n, err = f.ReadAt(b, at)
		if n > 0 {
			if _, writeErr := out.WriteAt(b[:n], at); writeErr != nil {
				err = writeErr
			}
		}
		at += int64(n)
	}
	if errors.Is(err, io.EOF) {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return "", err
	}
	if err := fsys.Rename(aside+tmpSuffix, aside); err != nil {
		return "", err
	}
	return aside, fsys.SyncDir(filepath.Dir(name))
}

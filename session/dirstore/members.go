package dirstore

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
)

// A keyID stands for a key: the beginning of the SHA-256 of its text. Batches name their members by
// it, and an idle log has it as its name.
type keyID [16]byte

func idOf(k session.Key) keyID {
	sum := sha256.Sum256([]byte(k.String()))
	return keyID(sum[:16])
}

// A memberEntry says that a session is a member of the idle log of a root.
type memberEntry struct{ member, root keyID }

// compare orders entries by the member first.
func (e memberEntry) compare(f memberEntry) int {
	return cmp.Or(bytes.Compare(e.member[:], f.member[:]), bytes.Compare(e.root[:], f.root[:]))
}

// The memberIndex leads from a session to the idle logs that have it as a member. Members of trees
// in the write-ahead log are in the memory of the journal instead.
//
//	<dir>/members/00000007.idx    sorted entries of 32 bytes, 128 in a frame
//
// The trees that become idle at one time bring one file. It takes the place of the files before it
// that have no more than twice as many entries, so there are few files, and finding a member takes
// a few reads in each, however many trees there are. Nothing of it is read when a store is opened.
//
// A file is durable before the trees leave the write-ahead log. So the index may have entries that
// are not true any more, and lacks none. All entries of a root in a file were written at one time:
// they take the place of those in files before it.
type memberIndex struct {
	fs  disk.FS
	dir string
}

const (
	memberSuffix  = ".idx"
	memberLen     = 32  // bytes of an entry
	memberBlock   = 128 // entries of a frame
	memberTries   = 5   // how often a reader begins again beside an owner that merges files
	mergedEntries = 2   // a file is merged that has at most so many times what comes after it
)

func newMemberIndex(fsys disk.FS, dir string) memberIndex {
	return memberIndex{fs: fsys, dir: filepath.Join(dir, "members")}
}

// files returns the numbers of the files, the newest first, and the names of temporary files.
func (x *memberIndex) files() (numbers []uint64, temporary []string, err error) {
	var entries []fs.DirEntry
	_, err = disk.LookUp(x.fs, filepath.Dir(x.dir), func() (err error) {
		entries, err = x.fs.ReadDir(x.dir)
		return err
	})
	for _, e := range entries {
		number, ok := strings.CutSuffix(e.Name(), memberSuffix)
		n, err := strconv.ParseUint(number, 10, 64)
		switch {
		case ok && err == nil && x.path(n) == filepath.Join(x.dir, e.Name()):
			numbers = append(numbers, n)
		case strings.HasSuffix(e.Name(), memberSuffix+tmpSuffix):
			temporary = append(temporary, filepath.Join(x.dir, e.Name()))
		}
	}
	slices.SortFunc(numbers, func(a, b uint64) int { return cmp.Compare(b, a) })
	return numbers, temporary, err
}

// path returns the path of the file with a number.
func (x *memberIndex) path(number uint64) string {
	return filepath.Join(x.dir, fmt.Sprintf("%08d%s", number, memberSuffix))
}

// find returns the roots of the idle logs that may have a member, each once. Beside an error of one
// file it returns what the others have.
func (x *memberIndex) find(member keyID) (roots []keyID, err error) {
	for range memberTries {
		var numbers []uint64
		if numbers, _, err = x.files(); err != nil {
			return nil, err
		}
		roots = nil
		for _, n := range numbers {
			more, failed := x.findIn(x.path(n), member)
			for _, root := range more {
				if !slices.Contains(roots, root) {
					roots = append(roots, root)
				}
			}
			err = errors.Join(err, failed)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return roots, err
		}
	}
	return roots, err
}

// findIn returns the roots that one file has for a member.
func (x *memberIndex) findIn(name string, member keyID) (roots []keyID, err error) {
	f, err := wal.OpenFrames(x.fs, name, memberBlock*memberLen)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	read := func(i int) (block []memberEntry) {
		payload, failed := f.Read(i)
		if failed == nil {
			block, failed = parseMembers(name, payload)
		}
		err = errors.Join(err, failed)
		return block
	}
	// The first block that ends with the member or beyond it.
	at := sort.Search(f.Len(), func(i int) bool {
		block := read(i)
		return err != nil || block[len(block)-1].compare(memberEntry{member: member}) >= 0
	})
	for ; at < f.Len() && err == nil; at++ {
		block := read(at)
		for _, e := range block {
			switch bytes.Compare(e.member[:], member[:]) {
			case 0:
				roots = append(roots, e.root)
			case 1:
				return roots, err
			}
		}
	}
	return roots, err
}

// lacks returns a *[session.CorruptError] if one of these entries is missing. A file that cannot be
// read has been reported before.
func (x *memberIndex) lacks(entries []memberEntry) error {
	for _, e := range entries {
		roots, err := x.find(e.member)
		if err == nil && !slices.Contains(roots, e.root) {
			const reason = "the index of members lacks a session of an idle tree"
			return &session.CorruptError{File: x.dir, Reason: reason}
		}
	}
	return nil
}

// parseMembers parses the payload of a frame. The error is a *[session.CorruptError] unless it has
// entries in their order.
func parseMembers(name string, b []byte) ([]memberEntry, error) {
	list := make([]memberEntry, 0, len(b)/memberLen)
	for rest := b; len(rest) >= memberLen; rest = rest[memberLen:] {
		list = append(list, memberEntry{keyID(rest[:16]), keyID(rest[16:memberLen])})
	}
	if len(list) == 0 || len(b)%memberLen > 0 || !slices.IsSortedFunc(list, memberEntry.compare) {
		return nil, &session.CorruptError{File: name, Reason: "the entries of members are not in order"}
	}
	return list, nil
}

// read returns all entries of a file.
func (x *memberIndex) read(name string) (all []memberEntry, r wal.Report, err error) {
	r, err = wal.ReadFile(x.fs, name, func(_ wal.Span, kind wal.Kind, payload []byte) error {
		if kind != frameMembers {
			return &wal.FormatError{What: fmt.Sprintf("frame kind %d", kind)}
		}
		block, err := parseMembers(name, payload)
		if err == nil && len(all) > 0 && all[len(all)-1].compare(block[0]) >= 0 {
			err = &session.CorruptError{File: name, Reason: "the frames are not in order"}
		}
		all = append(all, block...)
		return err
	})
	return all, r, err
}

// add makes entries durable, and merges files. The entries of a root must be all that it has. Only
// one call of add may be under way. A file that cannot be read is not merged: a reader reports it.
func (x *memberIndex) add(entries []memberEntry) error {
	if len(entries) == 0 {
		return nil
	}
	if err := disk.MakeDir(x.fs, filepath.Dir(x.dir), x.dir); err != nil {
		return fmt.Errorf("make index of members: %w", err)
	}
	numbers, temporary, err := x.files()
	if err != nil {
		return err
	}
	for _, name := range temporary {
		_ = x.fs.Remove(name) // a later process tries again
	}
	newest, merged := uint64(0), 0
	for i, n := range numbers {
		newest = max(newest, n)
		old, _, err := x.mergeable(n, mergedEntries*len(entries))
		if err != nil || old == nil {
			break
		}
		entries, merged = mergeMembers(entries, old), i+1
	}
	if err := x.write(newest+1, mergeMembers(entries, nil)); err != nil {
		return fmt.Errorf("write index of members: %w", err)
	}
	for _, n := range numbers[:merged] {
		_ = x.fs.Remove(x.path(n)) // the next add merges it again
	}
	return nil
}

// mergeable returns all entries of a file, or nil if it has more than limit.
func (x *memberIndex) mergeable(number uint64, limit int) ([]memberEntry, wal.Report, error) {
	f, err := wal.OpenFrames(x.fs, x.path(number), memberBlock*memberLen)
	if err != nil {
		return nil, wal.Report{}, err
	}
	blocks := f.Len()
	if err := f.Close(); err != nil || blocks*memberBlock > limit+memberBlock {
		return nil, wal.Report{}, err
	}
	return x.read(x.path(number))
}

// mergeMembers returns the entries and those of old whose roots have none among the entries.
func mergeMembers(entries, old []memberEntry) []memberEntry {
	roots := make(map[keyID]bool)
	for _, e := range entries {
		roots[e.root] = true
	}
	all := slices.Clip(entries)
	for _, e := range old {
		if !roots[e.root] {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, memberEntry.compare)
	return slices.Compact(all)
}

// write makes a file of sorted entries.
func (x *memberIndex) write(number uint64, entries []memberEntry) error {
	err := wal.WriteFile(x.fs, x.path(number), func(w *wal.Writer) error {
		for block := range slices.Chunk(entries, memberBlock) {
			var b []byte
			for _, e := range block {
				b = append(append(b, e.member[:]...), e.root[:]...)
			}
			if _, err := w.Append(frameMembers, b); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return x.fs.SyncDir(x.dir)
}

// appendMembers adds the number of members and their ids.
func appendMembers(b []byte, members []session.Key) []byte {
	b = binary.AppendUvarint(b, uint64(len(members)))
	for _, k := range members {
		id := idOf(k)
		b = append(b, id[:]...)
	}
	return b
}

// membersIn returns the members that appendBatch has put into a payload, for which it needs no
// other memory.
func membersIn(payload []byte, members []session.Key) memberList {
	if len(members) == 0 {
		return nil
	}
	b, _ := parseBatch(payload, func(string) (session.Key, error) { return session.Key{}, nil })
	return b.members
}

// A memberList has the ids of members, one after the other, as a batch has them.
type memberList []byte

func (l memberList) len() int { return len(l) / len(keyID{}) }

func (l memberList) at(i int) keyID { return keyID(l[i*len(keyID{}) : (i+1)*len(keyID{})]) }

// has reports whether id is in l.
func (l memberList) has(id keyID) bool {
	for i := range l.len() {
		if l.at(i) == id {
			return true
		}
	}
	return false
}

// addMembers makes the members of a batch lead to l. The caller holds mu, unless it replays.
func (j *journal) addMembers(l *treeLog, b *storedBatch) {
	if b.reset {
		j.dropMembers(l)
	}
	for i := range b.members.len() {
		id := b.members.at(i)
		if logs := j.members[id]; !slices.Contains(logs, l) {
			j.members[id] = append(logs, l)
			l.members = append(l.members, id)
		}
	}
}

// dropMembers makes no member lead to l any more. The caller holds mu.
func (j *journal) dropMembers(l *treeLog) {
	for _, id := range l.members {
		logs := slices.DeleteFunc(j.members[id], func(other *treeLog) bool { return other == l })
		if j.members[id] = logs; len(logs) == 0 {
			delete(j.members, id)
		}
	}
	l.members = nil
}

// entriesOf returns the entries that the index needs before trees leave the log.
func (j *journal) entriesOf(trees map[*treeLog][]batchSpan) (entries []memberEntry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for l := range trees {
		root := idOf(l.Root)
		for _, id := range l.members {
			entries = append(entries, memberEntry{id, root})
		}
	}
	return entries
}

// members returns the entries of an idle tree.
func (t *idleTree) members(root session.Key) (entries []memberEntry) {
	id := idOf(root)
	for i := range t.batches {
		b := &t.batches[i]
		if b.reset {
			entries = nil
		}
		for k := range b.members.len() {
			entries = append(entries, memberEntry{b.members.at(k), id})
		}
	}
	return entries
}

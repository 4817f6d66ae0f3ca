package sessiontest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/offshoot-sdk/offshoot/session"
)

// A FilesOpenFunc opens files. Every call opens the same files, as a process that starts again
// would. What is an [io.Closer] is closed before the next call.
type FilesOpenFunc = func() (session.Files, error)

// TestFiles runs every rule of [session.Files] in a subtest, which quotes the rule if it fails. It
// calls fresh once for each rule. fresh returns a function that opens a store without files.
func TestFiles(t *testing.T, fresh func(t *testing.T) FilesOpenFunc) {
	t.Helper()
	runRules(t, fileRules, fresh)
}

type (
	fileRule  = rule[session.Files]
	fileProbe = probe[session.Files]
)

// fileRules are the rules of [session.Files], in the order of their numbers.
var fileRules = []fileRule{
	{
		"nothing",
		"Of a transcript without files, List yields nothing and Open returns ErrNotFound.",
		checkNoFiles,
	},
	{
		"put",
		"Put returns the SHA-256 and the size of the bytes, and Open returns these bytes, however they are read.",
		checkPut,
	},
	{"empty file", "A file may be empty.", checkEmptyFile},
	{
		"durable",
		"Once Put has returned, the bytes are there when the files are opened again.",
		checkFileDurable,
	},
	{"again", "A Put of bytes that are there changes nothing and returns the same File.", checkPutAgain},
	{
		"same at once",
		"Many goroutines may put the same bytes at once; all get the same File, and it is kept once.",
		checkSameAtOnce,
	},
	{"at once", "Many goroutines may put different bytes at once.", checkFilesAtOnce},
	{"large file", "A file may be larger than session.BatchLimit.", checkLargeFile},
	{
		"size",
		"A Put of fewer or of more bytes than want.Size returns ErrFileChanged and keeps nothing.",
		checkWantSize,
	},
	{
		"hash",
		"A Put of bytes with another hash than want.Hash returns ErrFileChanged and keeps nothing.",
		checkWantHash,
	},
	{
		"reader error",
		"Put returns the error of its reader, at whatever byte it comes, and keeps nothing.",
		checkReaderError,
	},
	{
		"cut off",
		"An error of the reader that wraps io.EOF is not the end of the bytes, and an io.ErrUnexpectedEOF is not either.",
		checkCutOff,
	},
	{"whole", "While a Put is under way, neither List nor Open shows anything of it.", checkWhole},
	{
		"list",
		"List yields each file of the transcript once, with its size, and only these.",
		checkFileList,
	},
	{
		"apart",
		"Files are kept apart: of different sessions, and of one key with different session ids.",
		checkFilesApart,
	},
	{"archive", "Open and List find the files of an archived transcript.", checkFileArchive},
	{
		"archived",
		"Once the files are archived, Put returns ErrArchived, for bytes that are there too, and keeps nothing.",
		checkFileArchived,
	},
	{"archive again", "Archiving again changes nothing.", checkFileArchiveAgain},
	{
		"archive nothing",
		"Archiving the files of a transcript without files does nothing, and they may still be begun.",
		checkFileArchiveNothing,
	},
	{
		"archive durable",
		"Archived files are still archived, and there, when the files are opened again.",
		checkFileArchiveDurable,
	},
	{
		"restore",
		"Restore takes archived files into use again: Put takes more, and bytes that are there.",
		checkFileRestore,
	},
	{
		"restore nothing",
		"Restore does nothing for a transcript without files, and for files that are in use.",
		checkFileRestoreNothing,
	},
	{
		"restore durable",
		"Restored files are in use when the files are opened again.",
		checkFileRestoreDurable,
	},
	{
		"remove",
		"Remove takes all files of a transcript away for good; removing again changes nothing.",
		checkFileRemove,
	},
	{"remove archived", "Remove takes archived files away as well.", checkFileRemoveArchived},
	{
		"remove alone",
		"Remove leaves the same bytes of another transcript alone.",
		checkFileRemoveAlone,
	},
	{"early stop", "A loop over List may put and may end early, and then holds nothing up.", checkFileEarlyStop},
	{
		"invalid",
		"A Ref without a key, or with a session id that cannot be a name, is ErrInvalidKey, and so are a hash and a want that no bytes have.",
		checkInvalidFile,
	},
	{
		"context",
		"A ctx that is done makes Put, Archive, Restore and Remove do nothing, Open return its error, and List yield it once.",
		checkFileContext,
	},
	{
		"context meanwhile",
		"A ctx that is done while a Put is reading ends the Put with its error, and nothing is kept.",
		checkFileContextMeanwhile,
	},
	{"closed", "After Close, every method returns ErrClosed.", checkFilesClosed},
}

// fileBytes returns n bytes that say the id. The id is a part of every name that has them.
func fileBytes(id string, n int) []byte {
	return bytes.Repeat([]byte(id+"/"), n/(len(id)+1)+1)[:n]
}

// fileOf returns the File of bytes.
func fileOf(data []byte) session.File {
	sum := sha256.Sum256(data)
	return session.File{Hash: hex.EncodeToString(sum[:]), Size: int64(len(data))}
}

// putFile puts bytes of which nothing is known beforehand. The rule fails if Put does, or if the
// File is not the right one.
func putFile(p *fileProbe, s session.Files, ref session.Ref, data []byte) session.File {
	got, err := s.Put(p.ctx, ref, bytes.NewReader(data), session.File{})
	p.must(fmt.Sprintf("put %d bytes for %v", len(data), ref), err)
	if want := fileOf(data); got != want {
		p.fail("put %d bytes for %v: got %+v, want %+v", len(data), ref, got, want)
	}
	return got
}

// wantFiles fails the rule unless ref has exactly these files, each once, and Open returns them.
func wantFiles(p *fileProbe, s session.Files, ref session.Ref, want ...[]byte) {
	sizes := make(map[session.File]int)
	for file, err := range s.List(p.ctx, ref) {
		p.must(fmt.Sprintf("list %v", ref), err)
		sizes[file]++
	}
	wanted := make(map[session.File]int)
	for _, data := range want {
		wanted[fileOf(data)] = 1
		wantBytes(p, s, ref, data)
	}
	if !maps.Equal(sizes, wanted) {
		p.fail("list %v: got %v, want %v", ref, sizes, wanted)
	}
}

// wantBytes fails the rule unless Open returns these bytes under their hash.
func wantBytes(p *fileProbe, s session.Files, ref session.Ref, want []byte) {
	r, err := s.Open(p.ctx, ref, fileOf(want).Hash)
	p.must(fmt.Sprintf("open a file of %d bytes of %v", len(want), ref), err)
	got, err := io.ReadAll(r)
	p.must(fmt.Sprintf("read a file of %d bytes of %v", len(want), ref), errors.Join(err, r.Close()))
	if !bytes.Equal(got, want) {
		p.fail("open a file of %d bytes of %v: got %d other bytes", len(want), ref, len(got))
	}
}

// wantNoFile fails the rule if ref has these bytes.
func wantNoFile(p *fileProbe, s session.Files, ref session.Ref, data []byte) {
	r, err := s.Open(p.ctx, ref, fileOf(data).Hash)
	if err == nil {
		_ = r.Close()
	}
	p.wantIs(fmt.Sprintf("open what %v does not have", ref), err, session.ErrNotFound)
}

func checkNoFiles(p *fileProbe) {
	s := p.open()
	wantFiles(p, s, refA)
	wantNoFile(p, s, refA, []byte("x"))
}

func checkPut(p *fileProbe) {
	s := p.open()
	readers := []func([]byte) io.Reader{
		func(b []byte) io.Reader { return bytes.NewReader(b) },
		func(b []byte) io.Reader { return iotest.HalfReader(bytes.NewReader(b)) },
		func(b []byte) io.Reader { return iotest.DataErrReader(bytes.NewReader(b)) },
		func(b []byte) io.Reader { return &idleReader{r: bytes.NewReader(b)} },
	}
	var all [][]byte
	for i, size := range []int{1, 4095, 64 << 10, 64<<10 + 1, 1<<20 - 1, 3 << 20} {
		for j, reader := range readers {
			data := fileBytes(fmt.Sprint(i, "-", j), size)
			if size == 1 {
				data = []byte{byte(j)}
			}
			got, err := s.Put(p.ctx, refA, reader(data), session.File{})
			p.must(fmt.Sprintf("put %d bytes", size), err)
			if want := fileOf(data); got != want {
				p.fail("put %d bytes with reader %d: got %+v, want %+v", size, j, got, want)
			}
			all = append(all, data)
		}
	}
	wantFiles(p, s, refA, all...)
	r, err := s.Open(p.ctx, refA, fileOf(all[len(all)-1]).Hash)
	p.must("open", err)
	got, err := io.ReadAll(iotest.OneByteReader(io.LimitReader(r, 1000)))
	p.must("read byte by byte", errors.Join(err, r.Close()))
	if !bytes.Equal(got, all[len(all)-1][:1000]) {
		p.fail("reading byte by byte returned other bytes")
	}
}

// An idleReader returns no bytes and no error before each Read that does.
type idleReader struct {
	r    io.Reader
	busy bool
}

func (r *idleReader) Read(b []byte) (int, error) {
	if r.busy = !r.busy; r.busy {
		return 0, nil
	}
	return r.r.Read(b[:min(len(b), 100_000)])
}

func checkEmptyFile(p *fileProbe) {
	s := p.open()
	file := putFile(p, s, refA, nil)
	got, err := s.Put(p.ctx, refA, strings.NewReader(""), file)
	p.must("put an empty file that is known", err)
	if got != file {
		p.fail("put an empty file again: got %+v, want %+v", got, file)
	}
	wantFiles(p, s, refA, nil)
}

func checkFileDurable(p *fileProbe) {
	s := p.open()
	x, y := fileBytes("x", 100), fileBytes("y", 1<<20)
	putFile(p, s, refA, x)
	s = p.reopen()
	putFile(p, s, refA, y)
	wantFiles(p, p.reopen(), refA, x, y)
}

func checkPutAgain(p *fileProbe) {
	s := p.open()
	x, y := fileBytes("x", 100_000), fileBytes("y", 100)
	file := putFile(p, s, refA, x)
	putFile(p, s, refA, y)
	for _, want := range []session.File{{}, {Size: file.Size}, {Hash: file.Hash}, file} {
		got, err := s.Put(p.ctx, refA, bytes.NewReader(x), want)
		p.must(fmt.Sprintf("put again with want %+v", want), err)
		if got != file {
			p.fail("put again with want %+v: got %+v, want %+v", want, got, file)
		}
	}
	wantFiles(p, s, refA, x, y)
}

// putAtOnce puts each of the bytes in a goroutine of its own.
func putAtOnce(p *fileProbe, s session.Files, all [][]byte) {
	failed := make([]error, len(all))
	var wg sync.WaitGroup
	for i, data := range all {
		wg.Go(func() {
			var got session.File
			got, failed[i] = s.Put(p.ctx, refA, bytes.NewReader(data), session.File{})
			if failed[i] == nil && got != fileOf(data) {
				failed[i] = fmt.Errorf("got %+v, want %+v", got, fileOf(data))
			}
		})
	}
	wg.Wait()
	p.must("put beside others", errors.Join(failed...))
}

func checkSameAtOnce(p *fileProbe) {
	s := p.open()
	x := fileBytes("x", 200_000)
	putAtOnce(p, s, slices.Repeat([][]byte{x}, 16))
	wantFiles(p, s, refA, x)
}

func checkFilesAtOnce(p *fileProbe) {
	s := p.open()
	var all [][]byte
	for i := range 16 {
		all = append(all, fileBytes(fmt.Sprint("file", i), 200_000))
	}
	putAtOnce(p, s, all)
	wantFiles(p, s, refA, all...)
}

func checkWantSize(p *fileProbe) {
	s := p.open()
	x := fileBytes("x", 100_000)
	for _, size := range []int64{1, int64(len(x)) - 1, int64(len(x)) + 1, 1 << 40} {
		_, err := s.Put(p.ctx, refA, bytes.NewReader(x), session.File{Size: size})
		p.wantIs(fmt.Sprintf("put %d bytes as %d", len(x), size), err, session.ErrFileChanged)
	}
	_, err := s.Put(p.ctx, refA, endless{}, session.File{Size: 1 << 20})
	p.wantIs("put what does not end", err, session.ErrFileChanged)
	wantFiles(p, s, refA)
	wantNoFile(p, s, refA, x)
}

// endless has bytes without an end.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func checkWantHash(p *fileProbe) {
	s := p.open()
	x, y := fileBytes("x", 100_000), fileBytes("y", 100_000)
	for _, want := range []session.File{fileOf(y), {Hash: fileOf(y).Hash}} {
		_, err := s.Put(p.ctx, refA, bytes.NewReader(x), want)
		p.wantIs("put bytes with another hash", err, session.ErrFileChanged)
	}
	wantFiles(p, s, refA)
	wantNoFile(p, s, refA, x)
	wantNoFile(p, s, refA, y)
}

// errReader is the error of a source of bytes.
var errReader = errors.New("sessiontest: the source has failed")

func checkReaderError(p *fileProbe) {
	s := p.open()
	x := fileBytes("x", 200_000)
	for _, after := range []int64{0, 1, 64 << 10, int64(len(x))} {
		r := io.MultiReader(io.LimitReader(bytes.NewReader(x), after), iotest.ErrReader(errReader))
		_, err := s.Put(p.ctx, refA, r, session.File{})
		p.wantIs(fmt.Sprintf("put from a reader that fails after %d bytes", after), err, errReader)
	}
	wantFiles(p, s, refA)
	wantNoFile(p, s, refA, x)
}

func checkCutOff(p *fileProbe) {
	s := p.open()
	x := fileBytes("x", 100_000)
	for _, cut := range []error{io.ErrUnexpectedEOF, fmt.Errorf("connection: %w", io.EOF)} {
		r := io.MultiReader(bytes.NewReader(x), iotest.ErrReader(cut))
		_, err := s.Put(p.ctx, refA, r, session.File{})
		p.wantIs(fmt.Sprintf("put from a reader that ends with %q", cut), err, cut)
	}
	wantFiles(p, s, refA)
	wantNoFile(p, s, refA, x)
}

// A spyReader calls look before each Read, and returns so many bytes at once.
type spyReader struct {
	r    io.Reader
	size int
	look func()
}

func (r spyReader) Read(b []byte) (int, error) {
	r.look()
	return r.r.Read(b[:min(len(b), r.size)])
}

func checkWhole(p *fileProbe) {
	s := p.open()
	x, y := fileBytes("x", 300_000), fileBytes("y", 10)
	putFile(p, s, refA, y)
	_, err := s.Put(p.ctx, refA, spyReader{bytes.NewReader(x), 100_000, func() {
		wantFiles(p, s, refA, y)
		for n := range 3 {
			wantNoFile(p, s, refA, x[:(n+1)*100_000])
		}
	}}, session.File{})
	p.must("put", err)
	wantFiles(p, s, refA, x, y)
}

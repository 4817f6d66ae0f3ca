package workdir_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/internal/workdir"
)

// openBase opens a new directory.
func openBase(t *testing.T) (string, *os.Root) {
	t.Helper()
	base := t.TempDir()
	root, err := os.OpenRoot(base)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, root.Close()) })
	return base, root
}

// contents are files to write, by name and text. A text "!" cannot be read.
func contents(files ...string) (list []workdir.Content) {
	for i := 0; i < len(files); i += 2 {
		text := files[i+1]
		list = append(list, workdir.Content{Name: files[i], Open: func() (io.ReadCloser, error) {
			if text == "!" {
				return io.NopCloser(io.MultiReader(strings.NewReader("half"), fullDisk{})), nil
			}
			return io.NopCloser(strings.NewReader(text)), nil
		}})
	}
	return list
}

var errFull = errors.New("the disk is full")

// fullDisk fails as a copy to a disk that is full does.
type fullDisk struct{}

func (fullDisk) Read([]byte) (int, error) { return 0, errFull }

const dir, mark = ".x/files/1", "list"

// What is written is whole or not there, in whatever state an earlier attempt has left it.
func TestWriteIsRepeated(t *testing.T) {
	base, root := openBase(t)
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(base, dir, name))
		if err != nil {
			return "-"
		}
		return string(data)
	}
	write := func(files ...string) error {
		return workdir.Write(root, dir, contents(files...), mark, []byte("done"))
	}
	require.ErrorIs(t, write("a", "1", "b", "!"), errFull)
	require.Equal(t, "-", read("a"), "nothing half is left")
	require.NoError(t, write("a", "1", "b", "2"))
	require.Equal(t, []string{"1", "2", "done"}, []string{read("a"), read("b"), read(mark)})
	require.NoError(t, os.WriteFile(filepath.Join(base, dir, "a"), []byte("mine"), 0o600))
	require.NoError(t, write("a", "1", "b", "2"))
	require.Equal(t, "mine", read("a"), "what is done is left alone")
	require.NoError(t, os.Remove(filepath.Join(base, dir, mark)))
	require.NoError(t, os.WriteFile(filepath.Join(base, dir, "more"), nil, 0o600))
	require.NoError(t, write("a", "1", "b", "2"))
	require.Equal(t, []string{"1", "-"}, []string{read("a"), read("more")})
	require.NoError(t, write("c", "1", "c", "2"), "the mark says that all is there")
	require.NoError(t, os.Remove(filepath.Join(base, dir, mark)))
	require.ErrorIs(t, write("c", "1", "c", "2"), fs.ErrExist, "no file is written over")
	require.NoError(t, workdir.Remove(root, dir))
	require.NoError(t, workdir.Remove(root, dir), "it is gone already")
	require.Equal(t, "-", read("a"))
}

// No link is followed on the way, neither to write nor to remove, also one that stays inside. One
// in the place of the directory goes, and what it leads to stays.
func TestLinksAreNotFollowed(t *testing.T) {
	for _, at := range []string{".x", ".x/files", ".x/files/1", ".x/files/1/a"} {
		for _, inside := range []bool{true, false} {
			base, root := openBase(t)
			target := t.TempDir()
			if inside {
				target = filepath.Join(base, "target")
				require.NoError(t, os.Mkdir(target, 0o755))
			}
			for _, sub := range []string{"files/1", "1"} {
				require.NoError(t, os.MkdirAll(filepath.Join(target, sub), 0o755))
			}
			require.NoError(t, os.WriteFile(filepath.Join(target, "keep"), nil, 0o600))
			link := filepath.Join(base, at)
			require.NoError(t, os.MkdirAll(filepath.Dir(link), 0o755))
			to := target
			if inside {
				rel, err := filepath.Rel(filepath.Dir(link), target)
				require.NoError(t, err)
				to = rel
			}
			require.NoError(t, os.Symlink(to, link))
			err := workdir.Write(root, dir, contents("a", "1"), mark, []byte("done"))
			removed := workdir.Remove(root, dir)
			if strings.HasPrefix(at, dir) {
				require.NoError(t, err, at)
				require.NoError(t, removed, at)
			} else {
				require.ErrorContains(t, err, "link", at)
				require.ErrorContains(t, removed, "link", at)
			}
			for _, sub := range []string{"files/1", "1", "keep"} {
				_, err := os.Stat(filepath.Join(target, sub))
				require.NoError(t, err, "%s %v %s", at, inside, sub)
			}
			_, err = os.Stat(filepath.Join(target, "a"))
			require.ErrorIs(t, err, fs.ErrNotExist)
		}
	}
}

// The mark comes last: while a file is written it is not there, so that a process that dies leaves
// none beside files that are half.
func TestMarkIsLast(t *testing.T) {
	base, root := openBase(t)
	files := contents("a", "1", "b", "2")
	for i, f := range files {
		files[i].Open = func() (io.ReadCloser, error) {
			_, err := os.Stat(filepath.Join(base, dir, mark))
			require.ErrorIs(t, err, fs.ErrNotExist)
			return f.Open()
		}
	}
	require.NoError(t, workdir.Write(root, dir, files, mark, []byte("done")))
	_, err := os.Stat(filepath.Join(base, dir, mark))
	require.NoError(t, err)
}

// The directories above go with the last one in them, also after an error, and no other does.
func TestEmptyDirectoriesGo(t *testing.T) {
	base, root := openBase(t)
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(base, name))
		require.True(t, err == nil || errors.Is(err, fs.ErrNotExist), "%v", err)
		return err == nil
	}
	write := func(dir, text string) error {
		return workdir.Write(root, dir, contents("a", text), mark, []byte("done"))
	}
	require.ErrorIs(t, write(dir, "!"), errFull)
	require.False(t, has(".x"))
	require.NoError(t, write(dir, "1"))
	require.NoError(t, write(".x/files/2", "2"))
	require.NoError(t, workdir.Remove(root, dir))
	require.True(t, has(".x/files/2/a"))
	require.NoError(t, os.WriteFile(filepath.Join(base, ".x", "mine"), nil, 0o600))
	require.NoError(t, workdir.Remove(root, ".x/files/2"))
	require.False(t, has(".x/files"))
	require.True(t, has(".x/mine"))
	require.NoError(t, os.WriteFile(filepath.Join(base, ".x", "files"), nil, 0o600))
	require.Error(t, write(dir, "1"))
	require.True(t, has(".x/files"), "a file in the way stays")
}

// Directories that go as others are made in them cost neither.
func TestWriteWhileDirectoriesGo(t *testing.T) {
	base, root := openBase(t)
	var all sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		all.Go(func() {
			own := ".x/files/" + string(rune('a'+i))
			for n := 0; n < 50 && errs[i] == nil; n++ {
				errs[i] = errors.Join(
					workdir.Write(root, own, contents("f", own), mark, []byte("done")),
					workdir.Remove(root, own))
			}
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	left, err := os.ReadDir(base)
	require.NoError(t, err)
	require.Empty(t, left)
}

// Several at once make the directories above theirs, and have their own.
func TestWriteAtTheSameTime(t *testing.T) {
	base, root := openBase(t)
	var all sync.WaitGroup
	errs := make([]error, 20)
	for i := range errs {
		all.Go(func() {
			own := ".x/files/" + string(rune('a'+i))
			errs[i] = workdir.Write(root, own, contents("f", own), mark, []byte("done"))
			if i%2 == 0 {
				errs[i] = errors.Join(errs[i], workdir.Remove(root, own))
			}
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	list, err := os.ReadDir(filepath.Join(base, ".x", "files"))
	require.NoError(t, err)
	require.Len(t, list, 10)
}

package contexttest

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	agentctx "github.com/offshoot-sdk/offshoot/context"
)

// updateVariable accepts changes of golden files when it is true.
const updateVariable = "OFFSHOOT_UPDATE"

// Golden compares a prompt with testdata/prompts/<name>.md. It fails if the file does not exist,
// and with a diff if the prompt differs. With OFFSHOOT_UPDATE=1, or with -update where the tests
// define that flag, it writes the file instead. The name is one path element. The line ends of the
// file do not matter. The diff leaves out lines that look as if they held a password or key,
// because a failure is read in logs; [Clean] says in which file they stand.
func Golden(t testing.TB, name string, p agentctx.Prompt) {
	t.Helper()
	if name == "" || name != filepath.Base(name) || name == "." || name == ".." {
		t.Errorf("contexttest: golden name %q is not one path element", name)
		return
	}
	path := filepath.Join("testdata", "prompts", name+".md")
	got := p.String()
	if updateRequested() {
		if err := writeGolden(path, got); err != nil {
			t.Errorf("contexttest: golden %q: %v", name, err)
		}
		return
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Errorf(
			"contexttest: there is no golden file %s; run the test with %s=1 to make it, and review it",
			path, updateVariable,
		)
		return
	}
	if err != nil {
		t.Errorf("contexttest: golden %q: %v", name, err)
		return
	}
	want := strings.ReplaceAll(string(text), "\r\n", "\n") // a checkout may have changed them
	if want != got {
		t.Errorf(
			"contexttest: the prompt of %s differs from %s (- golden, + now); %s=1 accepts it:\n%s",
			p.Session, path, updateVariable, diffForLog(want, got),
		)
	}
}

// updateRequested reports whether the variable or the flag asks for new golden files.
func updateRequested() bool {
	if on, err := strconv.ParseBool(os.Getenv(updateVariable)); err == nil && on {
		return true
	}
	f := flag.Lookup("update")
	if f == nil {
		return false
	}
	getter, ok := f.Value.(flag.Getter)
	if !ok {
		return false
	}
	on, _ := getter.Get().(bool)
	return on
}

// writeGolden writes a golden file, and its directory if that does not exist.
func writeGolden(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

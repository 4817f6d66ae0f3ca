package announce_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
)

// markupFloor is how many rows of testdata/markup.json Visible passes at least.
const markupFloor = 200

// A markupRow is control markup of one family of models, or of terminals and Unicode, and what a
// person has to see of it. Some rows are texts that look alike and stay as they are.
type markupRow struct {
	Family  string `json:"family"`
	Form    string `json:"form"`
	Input   string `json:"input"`
	Visible string `json:"visible"` // "" if nothing is left to see
	Source  string `json:"source"`  // tokenizer, template or documentation that has the markup
}

func TestMarkupIsNotVisible(t *testing.T) {
	t.Parallel()
	rows := readMarkup(t)
	passed := 0
	for _, row := range rows {
		text, ok := announce.Visible(row.Input)
		if text == row.Visible && ok == (row.Visible != "") {
			passed++
			continue
		}
		t.Logf("%s: %s: Visible(%q) is %q, want %q", row.Family, row.Form, row.Input, text,
			row.Visible)
	}
	t.Logf("%d of %d rows pass", passed, len(rows))
	require.GreaterOrEqual(t, passed, markupFloor)
}

// Each row means the same to Visible, to Visible once more and to a Stream, wherever it is cut.
func TestMarkupInPieces(t *testing.T) {
	t.Parallel()
	for _, row := range readMarkup(t) {
		once, _ := announce.Visible(row.Input)
		again, _ := announce.Visible(once)
		require.Equal(t, once, again, "%s: %s", row.Family, row.Form)
		for size := 1; size < 7; size++ {
			var s announce.Stream
			shown := ""
			for rest := row.Input; rest != ""; {
				n := min(size, len(rest))
				shown += s.Write(rest[:n])
				rest = rest[n:]
			}
			shown += s.Close()
			require.Equal(t, announce.Redact(once), shown, "%s: %s by %d", row.Family, row.Form, size)
		}
	}
}

func TestMarkupRowsAreWhole(t *testing.T) {
	t.Parallel()
	rows := readMarkup(t)
	families, names := make(map[string]bool), make(map[string]bool)
	for _, row := range rows {
		name := row.Family + ": " + row.Form
		require.False(t, names[name], "%s stands twice", name)
		names[name], families[row.Family] = true, true
		require.NotEmpty(t, row.Input, name)
		require.NotEmpty(t, row.Source, name)
		require.NotEmpty(t, row.Form, name)
	}
	require.GreaterOrEqual(t, len(rows), 150)
	require.GreaterOrEqual(t, len(families), 30)
}

func readMarkup(t testing.TB) []markupRow {
	t.Helper()
	data, err := os.ReadFile("testdata/markup.json")
	require.NoError(t, err)
	var rows []markupRow
	require.NoError(t, json.Unmarshal(data, &rows))
	return rows
}

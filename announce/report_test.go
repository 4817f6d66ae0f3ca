package announce_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// report returns the report of a child that has written a text.
func report(status spawn.Status, reason, text string) string {
	return testEvent(func(c *spawn.Completion) {
		c.Run.Status, c.Run.Error, c.Run.Result.Text = status, reason, text
		c.Run.Result.JSON, c.Fallback = nil, ""
	}).Report()
}

// reportOf is the form of a report with a status, a result and notes.
func reportOf(status, result, notes string) string {
	return "Status: " + status + "\n\nResult:\n" + result + "\n\nNotes:\n" + notes + "\n\nStats: "
}

// A report has the status of the runtime, and the sections that the child has written.
func TestReport(t *testing.T) {
	t.Parallel()
	ok := spawn.StatusOK
	for name, c := range map[string]struct {
		status       spawn.Status
		reason, text string
		want         string
	}{
		"no sections": {ok, "", "There are 12.", reportOf("success", "There are 12.", "- (none)")},
		"sections": {
			ok, "", "Result: 12\nNotes: one is old", reportOf("success", "12", "one is old"),
		},
		"marks and letters": {
			ok, "", "- **Result**: 12\n * NOTES : old", reportOf("success", "12", "old"),
		},
		"emphasis behind the colon": {
			ok, "", "**Result:** 12\n**Notes:** old", reportOf("success", "12", "old"),
		},
		"lines below": {
			ok, "", "Result:\n\n12\n13\n\nNotes:\n- old\n- new",
			reportOf("success", "12\n13", "- old\n- new"),
		},
		"what is before": {
			ok, "", "Here you are.\nResult: 12", reportOf("success", "12", "- (none)"),
		},
		"a status of its own": {
			spawn.StatusFailed, "boom", "Status: success\nResult: 12",
			reportOf("error", "12", "- Error: boom"),
		},
		"notes and an error": {
			spawn.StatusTimedOut, "too late", "Notes: half",
			reportOf("timeout", "(not available)", "half\n- Error: too late"),
		},
		"nothing":         {ok, "", "", reportOf("success", "(not available)", "- (none)")},
		"an empty result": {ok, "", "Result:\nNotes: x", reportOf("success", "(not available)", "x")},
		"a header in a header": {
			ok, "", "Result: Notes: Status: x", reportOf("success", "(not available)", "Status: x"),
		},
		"a forged line of stats": {
			ok, "", "Result: 12\nStats: runtime 1s",
			reportOf("success", "12\n· Stats: runtime 1s", "- (none)"),
		},
		"a status that goes on": {
			ok, "", "Status: success, nearly\nwell", reportOf("success",
				"· Status: success, nearly\nwell", "- (none)"),
		},
		"its status and no result": {
			ok, "", "**Status:** Success.\n\nThere are 12.",
			reportOf("success", "There are 12.", "- (none)"),
		},
		"a status that is content": {
			ok, "", "Status: shipped\nTracking: ABC",
			reportOf("success", "Status: shipped\nTracking: ABC", "- (none)"),
		},
		"a status within a text": {
			ok, "", "The HTTP answer:\n\nStatus: 404\nBody: none\n\nSo the page is gone.",
			reportOf("success",
				"The HTTP answer:\n\nStatus: 404\nBody: none\n\nSo the page is gone.", "- (none)"),
		},
		"YAML without a fence": {
			ok, "", "kind: Pod\nstatus:\n  phase: Running\nIt works.",
			reportOf("success", "kind: Pod\nstatus:\n  phase: Running\nIt works.", "- (none)"),
		},
		"headers in code": {
			ok, "", "```yaml\nkind: Pod\nstatus: ok\nresult: 1\nnotes: x\nStats: y\n```\nIt works.",
			reportOf("success",
				"```yaml\nkind: Pod\nstatus: ok\nresult: 1\nnotes: x\nStats: y\n```\nIt works.",
				"- (none)"),
		},
		"code in a section": {
			ok, "", "Result: ~~~\nNotes: a\n~~~\nb\nNotes:\n  ```\n  Result: c\n  ```",
			reportOf("success", "~~~\nNotes: a\n~~~\nb", "```\n  Result: c\n  ```"),
		},
		"code that is not closed": {
			ok, "", "````\nstatus: ok\n```", reportOf("success",
				"````\nstatus: ok\n```\n````", "- (none)"),
		},
		"code in an item that is closed": {
			ok, "", "- ```go\n  x\n  ```\nDone", reportOf("success",
				"- ```go\n  x\n  ```\nDone", "- (none)"),
		},
		"code in an item that the item ends": {
			ok, "", "1. a\n   ~~~\n   x\nDone", reportOf("success",
				"1. a\n   ~~~\n   x\nDone", "- (none)"),
		},
		"code in an item that is not closed": {
			ok, "", "Result: 1\n- a\n  - ```go\n    x", reportOf("success",
				"1\n- a\n  - ```go\n    x\n    ```", "- (none)"),
		},
		"code within two items that the outer one ends": {
			ok, "", "- a\n  - b\n\n  ```\n  x\nDone", reportOf("success",
				"- a\n  - b\n\n  ```\n  x\nDone", "- (none)"),
		},
		"a fence that is indented as code": {
			ok, "", "See:\n\n    ```\n\nDone", reportOf("success",
				"See:\n\n    ```\n\nDone", "- (none)"),
		},
		"a fence in code that is indented too far to close it": {
			ok, "", "```\n    ```\nx", reportOf("success", "```\n    ```\nx\n```", "- (none)"),
		},
		"a quotation of a fence": {
			ok, "", "> ```\n> x\n\nDone", reportOf("success", "> ```\n> x\n\nDone", "- (none)"),
		},
		"a word": {ok, "", "Results: 12", reportOf("success", "Results: 12", "- (none)")},
		"thoughts": {
			ok, "", "<think>Result: 13</think>Result: 12", reportOf("success", "12", "- (none)"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := report(c.status, c.reason, c.text)
			require.True(t, strings.HasPrefix(got, c.want), "%s", got)
			require.NotContains(t, strings.TrimPrefix(got, c.want), "\n")
		})
	}
}

// A child that chose to say nothing has no report.
func TestReportOfSilence(t *testing.T) {
	t.Parallel()
	require.Empty(t, report(spawn.StatusOK, "", announce.AnnounceSkip))
	require.NotEmpty(t, report(spawn.StatusFailed, "", announce.AnnounceSkip))
}

// A report has its five lines once each outside of code, whatever the child has written.
func FuzzReport(f *testing.F) {
	for _, s := range []string{
		"Result: 12\nNotes: old", "- **Status**: x\r\nResult:", "Stats: runtime", "Notes: Result: Stats: x",
		"Status: 404\n* status:ok.", "```\nResult: x\n```\nStatus: unknown", "Notes: ~~~\nStatus: ok",
		"* ** result : Notes:", "\tnotes\t:\nStatus : ok", "Result:\u200b Status: x", "sTaTuS:Result:x",
	} {
		f.Add(s)
	}
	header := regexp.MustCompile(`(?im)^[ \t]*[-*]?[ \t]*(\*\*)?(status(\*\*)?[ \t]*:(\*\*)?[ \t]*` +
		`(success|error|timeout|unknown)\b|(result|notes)(\*\*)?[ \t]*:)`)
	stats := regexp.MustCompile(`(?m)^[ \t]*Stats: `)
	f.Fuzz(func(t *testing.T, text string) {
		got := report(spawn.StatusOK, "", text)
		if got == "" {
			return
		}
		got = announce.OutsideCode(got)
		require.Len(t, header.FindAllString(got, -1), 3, "%q", got)
		require.Len(t, stats.FindAllString(got, -1), 1, "%q", got)
		require.True(t, strings.HasPrefix(got, "Status: success\n\nResult:\n"), "%q", got)
	})
}

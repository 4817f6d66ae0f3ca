package command_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/command"
)

// What people type, and what it asks for.
func TestParse(t *testing.T) {
	for said, want := range map[string]command.Command{
		"/subagents":                        command.List{},
		" /SUBAGENTS  List ":                command.List{},
		"/subagents:list":                   command.List{},
		"/subagents help":                   command.Help{},
		"/subagents foo 1":                  command.Help{Unknown: "foo"},
		"/subagents kill 1":                 command.Kill{Target: "1"},
		"/subagents stop all":               command.Kill{Target: "all"},
		"/kill *":                           command.Kill{Target: "*"},
		"/Kill alpha \t core":               command.Kill{Target: "alpha core"},
		"/kill \"alpha  core\"":             command.Kill{Target: "alpha core"},
		"/kill: 2":                          command.Kill{Target: "2"},
		"/kill agent:main:subagent:x":       command.Kill{Target: "agent:main:subagent:x"},
		"/kill@helper 2":                    command.Kill{Target: "2"},
		"/subagents log 2":                  command.Log{Target: "2"},
		"/subagents log 1 500 tools":        command.Log{Target: "1", Limit: 200, Tools: true},
		"/subagents log TOOLS 1":            command.Log{Target: "1", Tools: true},
		"/subagents log alpha core 5":       command.Log{Target: "alpha core", Limit: 5},
		"/subagents log alpha core":         command.Log{Target: "alpha core"},
		"/subagents log “alpha 5” tools 3":  command.Log{Target: "alpha 5", Limit: 3, Tools: true},
		"/subagents log 1 " + nines:         command.Log{Target: "1", Limit: 200},
		"/subagents info last":              command.Info{Target: "last"},
		"/subagents send 1 a\n  b":          command.Send{Target: "1", Text: "a\n  b"},
		"/subagents steer «alpha core» x y": command.Steer{Target: "alpha core", Text: "x y"},
		"/steer #2 do this":                 command.Steer{Target: "#2", Text: "do this"},
		"/tell 1 do this":                   command.Steer{Target: "1", Text: "do this"},
		"/subagents spawn beta do it --model m --thinking low": command.Spawn{
			Agent: "beta", Task: "do it", Model: "m", Thinking: "low",
		},
		"/subagents spawn beta --model m do\n  it": command.Spawn{
			Agent: "beta", Task: "do\n  it", Model: "m",
		},
		"/subagents spawn beta do —model=m it": command.Spawn{
			Agent: "beta", Task: "do it", Model: "m",
		},
		"/subagents spawn beta x --model":      command.Spawn{Agent: "beta", Task: "x --model"},
		"/subagents spawn beta x --models are": command.Spawn{Agent: "beta", Task: "x --models are"},
		"/focus general/1":                     command.Focus{Target: "general/1"},
		"/unfocus":                             command.Unfocus{},
		"/agents":                              command.Agents{},
		"/session idle":                        command.Limit{},
		"/session idle 2":                      idle(2 * time.Hour),
		"/session IDLE 90m":                    idle(90 * time.Minute),
		"/session idle 1h 30m":                 idle(90 * time.Minute),
		"/session idle 1.5h":                   idle(90 * time.Minute),
		"/session idle 1d2h3m4s5ms":            idle(26*time.Hour + 3*time.Minute + 4*time.Second + 5*time.Millisecond),
		"/session idle 0h":                     idle(0),
		"/session max-age off":                 command.Limit{Kind: command.LimitMaxAge, Set: true},
		"/session max-age None":                command.Limit{Kind: command.LimitMaxAge, Set: true},
		"/stop":                                command.Stop{},
		"/stop!!":                              command.Stop{},
		"/stop@Helper":                         command.Stop{},
		"please stop!!":                        command.Stop{Phrase: true},
		"Stop, ":                               command.Stop{Phrase: true},
		"STOP DON’T DO ANYTHING…":              command.Stop{Phrase: true},
		"停止。":                                  command.Stop{Phrase: true},
		"stop helper":                          command.Stop{Phrase: true},
		"/new":                                 command.Reset{},
		"/reset Who are\nyou?":                 command.Reset{Text: "Who are\nyou?"},
		"/compact":                             command.Compact{},
	} {
		syntax := command.Syntax{Bot: "helper"}
		c, ok, err := syntax.Parse(said)
		require.NoError(t, err, said)
		require.True(t, ok, said)
		require.Equal(t, want, c, said)
		_, again, err := syntax.Parse(c.Name())
		require.True(t, again, "the name of %T is not that of a command", c)
		_ = err // most commands take something
	}
}

const nines = "99999999999999999999999999"

func idle(d time.Duration) command.Command { return command.Limit{Set: true, Value: d} }

// What is not a command is a message like any other: above all what only begins like one.
func TestParseOfMessages(t *testing.T) {
	for _, said := range []string{
		"", " ", "hello", "/", "/killall", "/tellme 1 x", "/subagentslist", "/focused", "/stopwatch",
		"/sessions", "/newer", "/kill@other 1", "/stop@", "kill 1", "//kill 1", "/ kill 1",
		"stop the car", "please do not stop", "wait for me", "\\/stop", "/kill1", "stop other",
		"?!", strings.Repeat("stop ", 1000),
	} {
		c, ok, err := (&command.Syntax{Bot: "helper"}).Parse(said)
		require.NoError(t, err, said)
		require.False(t, ok, said)
		require.Nil(t, c, said)
	}
	_, ok, _ := new(command.Syntax).Parse("/stop@helper")
	require.False(t, ok, "a bot without a name is not one with a name")
}

// Every malformed command says what is wrong with it, and how it is written.
func TestParseMistakes(t *testing.T) {
	for said, words := range map[string]string{
		"/kill":                                       "The target: it is missing",
		"/kill \"\"":                                  "The target: it is missing",
		"/kill \"alpha":                               "quotation mark is not closed",
		"/kill \"alpha\" beta":                        "nothing stands behind the target",
		"/subagents kill":                             "Usage: /subagents kill <target|all>",
		"/subagents stop":                             "Usage: /subagents stop <target|all>",
		"/subagents list all":                         "nothing stands behind /subagents list",
		"/subagents log":                              "The target: it is missing",
		"/subagents log tools":                        "The target: it is missing",
		"/subagents log 1 0":                          "from 1 to 200",
		"/subagents log 1 -3":                         "from 1 to 200",
		"/subagents log \"a\" many":                   "not a number of messages",
		"/subagents info":                             "Usage: /subagents info <target>",
		"/subagents send":                             "The target: it is missing",
		"/subagents send 1":                           "The message: it is missing",
		"/subagents send 1 \u200b":                    "The message: it is missing",
		"/steer 1":                                    "Usage: /steer <target> <message>",
		"/tell 1":                                     "Usage: /tell <target> <message>",
		"/tell 1 " + strings.Repeat("é", 4001):        "it has 4001 characters, and 4000 at most",
		"/subagents spawn":                            "The agent: it is missing",
		"/subagents spawn beta":                       "The task: it is missing",
		"/subagents spawn beta --model m":             "The task: it is missing",
		"/subagents spawn --model m beta x":           "the agent stands before the flags",
		"/subagents spawn b x --model --thinking low": "its value is missing",
		"/subagents spawn b --model= x":               "its value is missing",
		"/subagents spawn b --model m --model n x":    "stands there twice",
		"/focus":                       "Usage: /focus <target>",
		"/unfocus now":                 "nothing stands behind /unfocus",
		"/agents all":                  "nothing stands behind /agents",
		"/session":                     "Usage: /session idle|max-age [duration|off]",
		"/session reset":               "not a limit",
		"/session idle soon":           "not a duration",
		"/session idle -1h":            "not a duration",
		"/session idle 5 6":            "a number without a unit stands alone",
		"/session idle 1h 30":          "a number without a unit stands alone",
		"/session idle 1 . 5h":         "a number without a unit stands alone",
		"/session idle 1h30":           "not a duration",
		"/session idle h":              "not a duration",
		"/session idle 1e3":            "not a duration",
		"/session idle 0.0001ms":       "not a duration",
		"/session idle 1.2.3h":         "not a duration",
		"/session idle 1000001":        "longer than 1,000,000 hours",
		"/session idle " + nines + "d": "longer than 1,000,000 hours",
		"/session max-age 1w":          "Usage: /session max-age [duration|off]",
		"/stop 1":                      "/kill stops one sub-agent",
		"/compact the older half":      "nothing stands behind /compact",
		"/subagents spawn beta \u200b": "The task: it is missing",
	} {
		c, ok, err := new(command.Syntax).Parse(said)
		require.True(t, ok, said)
		require.Nil(t, c, said)
		var bad *command.UsageError
		require.ErrorAs(t, err, &bad, said)
		require.Contains(t, command.Failed{Err: err}.Text(), words, said)
		require.Contains(t, err.Error(), "command: "+bad.Command, said)
	}
}

// The phrases are those of the field, in many languages, and can be set.
func TestStopPhrases(t *testing.T) {
	for _, phrase := range command.StopPhrases() {
		for _, said := range []string{phrase, strings.ToUpper(phrase) + "!", " " + phrase + " ... "} {
			c, ok, err := new(command.Syntax).Parse(said)
			require.NoError(t, err)
			require.True(t, ok, said)
			require.Equal(t, command.Stop{Phrase: true}, c, said)
		}
	}
	require.Len(t, command.StopPhrases(), 40)
	_, ok, _ := (&command.Syntax{Phrases: []string{}}).Parse("stop")
	require.False(t, ok)
	_, ok, _ = (&command.Syntax{Phrases: []string{"Basta!"}}).Parse("basta")
	require.True(t, ok)
}

// Whatever is typed is a message, a command or a UsageError, whose words are bounded and show
// nothing that is not drawn.
func FuzzParse(f *testing.F) {
	for _, said := range []string{
		"/subagents spawn a b --model c", "/kill \"", "/session idle 1h", "stop!", "/log\x1b[2J 1",
		"/subagents log “a” 3 tools", "/kill \u202e\x00", "/steer 1 \xff",
	} {
		f.Add(said)
	}
	f.Fuzz(func(t *testing.T, said string) {
		c, ok, err := (&command.Syntax{Bot: "b"}).Parse(said)
		if (c != nil) != (ok && err == nil) {
			t.Fatalf("%q: %v %v %v", said, c, ok, err)
		}
		if err == nil {
			return
		}
		words := command.Failed{Err: err}.Text()
		if !utf8.ValidString(words) || len(words) > 1000 || strings.ContainsAny(words, "\x1b\u202e\x00") {
			t.Fatalf("%q: %q", said, words)
		}
	})
}

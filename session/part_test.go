package session_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
)

var someFile = session.File{Hash: strings.Repeat("0af9", 16), Size: 5}

// Every field of a part that a transcript cannot keep is refused by its name, and so is the line.
func TestPartsThatAreRefused(t *testing.T) {
	good := session.Part{Kind: session.PartImage, MediaType: "image/png", File: someFile}
	require.NoError(t, good.Validate())
	require.NoError(t, good.ValidateNew())
	for field, spoil := range map[string][]func(*session.Part){
		"Kind": {
			func(p *session.Part) { p.Kind = "" },
			func(p *session.Part) { p.Kind = "a\nb" },
		},
		"MediaType": {
			func(p *session.Part) { p.MediaType = "png" },
			func(p *session.Part) { p.MediaType = "image/" },
			func(p *session.Part) { p.MediaType = "image/png\r\nx: y" },
			func(p *session.Part) { p.MediaType = "image/" + strings.Repeat("x", 255) },
		},
		"Name": {
			func(p *session.Part) { p.Name = "../a.png" },
			func(p *session.Part) { p.Name = `C:\a.png` },
			func(p *session.Part) { p.Name = ".." },
			func(p *session.Part) { p.Name = "C:evil" },
			func(p *session.Part) { p.Name = "z:" },
			func(p *session.Part) { p.Name = "a\x00b" },
			func(p *session.Part) { p.Name = "a\u202eb" },
			func(p *session.Part) { p.Name = strings.Repeat("x", 256) },
		},
		"File": {
			func(p *session.Part) { p.File = session.File{} },
			func(p *session.Part) { p.File.Hash = strings.ToUpper(p.File.Hash) },
			func(p *session.Part) { p.File.Hash = "../" + p.File.Hash[3:] },
			func(p *session.Part) { p.File.Size = -1 },
		},
		"URL": {
			func(p *session.Part) { p.URL = "https://example.com/a.png" },
			func(p *session.Part) { p.File, p.URL = session.File{}, "file:///etc/passwd" },
			func(p *session.Part) { p.File, p.URL = session.File{}, "a.png" },
			func(p *session.Part) { p.File, p.URL = session.File{}, "https:///a.png" },
			func(p *session.Part) {
				p.File, p.URL = session.File{}, "https://example.com/"+strings.Repeat("x", 8192)
			},
			func(p *session.Part) { p.File, p.URL = session.File{}, "http://u:p@host/x" },
			func(p *session.Part) { p.File, p.URL = session.File{}, "https://u@host/x" },
			func(p *session.Part) { p.File, p.URL = session.File{}, "https://@host/x" },
			func(p *session.Part) { p.File, p.URL = session.File{}, "https://host/a b" },
			func(p *session.Part) { p.File, p.URL = session.File{}, "https://host/?q=a b" },
		},
		"Data": {func(p *session.Part) { p.Data = []byte("x") }},
	} {
		for i, f := range spoil {
			bad := good
			f(&bad)
			m := session.Message{Role: session.MessageUser, Parts: []session.Part{good, bad}}
			for what, err := range map[string]error{"Validate": m.Validate(), "JSON": jsonError(m)} {
				var part *session.PartError
				require.ErrorAs(t, err, &part, "%s of %s %d", what, field, i)
				require.Equal(t, field, part.Field)
				require.Equal(t, 1, part.Index)
				require.ErrorIs(t, err, session.ErrInvalidLine)
				require.ErrorIs(t, err, session.ErrInvalidPart)
			}
			require.Error(t, bad.ValidateNew(), "%s %d", field, i)
		}
	}
	fresh := session.Part{Kind: session.PartFile, Data: []byte("x")}
	require.NoError(t, fresh.ValidateNew())
	fresh.URL = "https://example.com"
	require.ErrorIs(t, fresh.ValidateNew(), session.ErrInvalidPart)

	for _, fine := range []session.Part{
		{Kind: session.PartFile, Name: "1: a.png", File: someFile},
		{Kind: session.PartFile, Name: "re: C:evil", File: someFile},
		{Kind: session.PartFile, Name: "ü:x", File: someFile},
		{Kind: session.PartFile, URL: "https://host/@user/a%20b?mail=a@b"},
	} {
		require.NoError(t, fine.Validate())
	}
}

func jsonError(m session.Message) error {
	_, err := m.AppendJSON(nil)
	return err
}

// A line with a sender, parts and a reference to the whole message comes back as it was, and what a
// newer version wrote into a part stays.
func TestPartsOfALine(t *testing.T) {
	m := session.Message{
		Role: session.MessageUser, Text: "look", From: session.Sender{ID: "7", Name: `Ann "B"`},
		Parts: []session.Part{
			{Kind: session.PartImage, MediaType: "image/png", Name: "a b.png", File: someFile},
			{Kind: "sticker", URL: "https://example.com/x?a=b&c=<d>"},
		},
		Whole: session.File{Hash: someFile.Hash, Size: 1 << 40},
	}
	line, err := m.AppendJSON(nil)
	require.NoError(t, err)
	var back session.Message
	require.NoError(t, json.Unmarshal(line, &back))
	require.Equal(t, m, back)

	newer := `{"role":"user","parts":[{"kind":"image","url":"https://a.b","depth":3}]}`
	require.NoError(t, json.Unmarshal([]byte(newer), &back))
	again, err := back.AppendJSON(nil)
	require.NoError(t, err)
	require.JSONEq(t, newer, string(again))
}

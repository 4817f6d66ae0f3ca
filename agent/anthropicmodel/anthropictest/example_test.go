package anthropictest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent/agenttest"

	"github.com/offshoot-sdk/offshoot/agent/anthropicmodel/anthropictest"
)

// The fake is strict: it refuses what the provider does not know.
func Example() {
	fake := &agenttest.Provider{}
	server := httptest.NewServer(anthropictest.Handler(fake))
	defer server.Close()
	body := `{"model":"large-2","max_tokns":1}`
	resp, err := http.Post(server.URL+"/v1/messages", "application/json", strings.NewReader(body))
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = resp.Body.Close()
	fmt.Println(resp.StatusCode, strings.Contains(fake.Err().Error(), "max_tokns"))
	// Output:
	// 400 true
}

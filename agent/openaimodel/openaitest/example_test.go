package openaitest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent/agenttest"

	"github.com/offshoot-sdk/offshoot/agent/openaimodel/openaitest"
)

// The fake is strict: it refuses what the provider does not know.
func Example() {
	fake := &agenttest.Provider{}
	server := httptest.NewServer(openaitest.Handler(fake))
	defer server.Close()
	resp, err := http.Post(server.URL+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"large-2","temprature":1}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = resp.Body.Close()
	fmt.Println(resp.StatusCode)
	fmt.Println(fake.Err())
	// Output:
	// 400
	// agenttest: the request is not one that the provider understands: the member temprature is unknown
}

package provider_test

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/provider"
)

// A client of a provider that takes no calls for now says so to the Loop, which waits.
func Example() {
	header := http.Header{"Retry-After": {"20"}}
	var err error = &provider.Error{
		Client: "mymodel", Status: http.StatusTooManyRequests, Message: "Slow down.",
		After: provider.After(header, time.Now()),
	}
	fmt.Println(err)
	limited, ok := errors.AsType[agent.RateLimited](err)
	fmt.Println(ok, limited.After)

	name, err := provider.Name("mymodel", "mymodel/large-2", "")
	fmt.Println(name, err)
	// Output:
	// mymodel: the provider answers 429 Too Many Requests: Slow down.
	// true 20s
	// large-2 <nil>
}

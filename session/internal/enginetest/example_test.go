package enginetest_test

import (
	"context"
	"fmt"

	"github.com/offshoot-sdk/offshoot/session/internal/enginetest"
)

func Example() {
	network := enginetest.NewNetwork(false)
	network.SetCut(true)
	_, err := network.DialContext(context.Background(), "tcp", "127.0.0.1:1")
	fmt.Println(err)
	// Output: enginetest: the process is cut off
}

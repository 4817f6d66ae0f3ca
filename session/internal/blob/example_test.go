package blob_test

import (
	"fmt"
	"strings"

	"github.com/offshoot-sdk/offshoot/session/internal/blob"
)

func Example() {
	last, err := blob.Copy(strings.NewReader("abcdefgh"), 3, func(chunk []byte) error {
		fmt.Printf("%s ", chunk)
		return nil
	})
	fmt.Println(string(last), err)
	// Output: abc def gh <nil>
}

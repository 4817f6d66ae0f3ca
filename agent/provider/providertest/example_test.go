package providertest_test

import (
	"fmt"
	"testing"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/provider/providertest"
)

// newModel makes the Model of your own client.
func newModel(providertest.Config) (agent.StreamModel, error) {
	return nil, nil //nolint:nilnil // it stands for one
}

// A Form says what the provider sends. A test of the client is one line for each rule, such as
//
//	func TestEnds(t *testing.T) { providertest.TestEnds(t, form) }
func Example() {
	form := providertest.Form{
		Client: "yourmodel", Model: "you/model-1", New: newModel,
		Begin:  "data: {\"text\":\"" + providertest.Text + "\"}\n\n",
		Finish: "data: {\"end\":true,\"tokens\":7}\n\n",
		Fault:  "data: {\"error\":\"Overloaded\"}\n\n",
	}
	for _, test := range []func(*testing.T, providertest.Form){
		providertest.TestEnds, providertest.TestLines, providertest.TestHangs,
	} {
		_ = test // (t, form)
	}
	fmt.Println(form.Client, providertest.Text, providertest.Tokens)
	// Output: yourmodel Noon. 7
}

// Package providertest has tests for the client of a provider, beside those of agenttest.TestModel:
// what it makes of servers, and of code of the program, that are worse than a fake of the provider.
// A [Form] says what they need to know of the provider. The adapters keep all of them, and a Model
// of your own may use those that fit it.
package providertest

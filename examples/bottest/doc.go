// Package bottest shows how a bot is tested: with a scripted model, virtual time and crashes. It
// consists of tests, see bot_test.go.
package bottest

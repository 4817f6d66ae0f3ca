// Package bottest shows how a bot is tested: with a scripted model, virtual time and crashes. There is only a test in it.
package bottest

// Package provider has what every [agent.Model] needs that calls a provider over HTTP, and that has
// to do with no provider in particular.
//
//	ModelRequest ---> Name, ReadPart, Strict ---> the request in the provider's form
//	                                                   |
//	                                                 Watch: the provider has gone silent
//	                                                 Apart: code of the program hangs
//	                                                 OneRequest, Bounded: one server, and an
//	                                                   |     answer that fits into memory
//	                                                   |
//	ModelResponse <-- Ran <------------------------ the answer
//	error <-- Masked, Error, After <--------------- a status, a code, words
//
// The adapters to providers stand on it: openaimodel and anthropicmodel, which are modules of their
// own. A Model for another provider does, too, and is tested with agenttest.TestModel.
package provider

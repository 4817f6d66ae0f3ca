// Package natsstore keeps a [session.Store] in NATS JetStream. It is being built.
package natsstore

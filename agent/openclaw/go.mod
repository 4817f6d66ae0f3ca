module github.com/offshoot-sdk/offshoot/agent/openclaw

go 1.26.0

require (
	github.com/offshoot-sdk/offshoot v0.0.0
	github.com/stretchr/testify v1.12.1
	github.com/tdewolff/parse/v2 v2.8.20
)

require (
	github.com/google/uuid v1.6.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/sync v0.24.0 // indirect
)

replace github.com/offshoot-sdk/offshoot => ../..

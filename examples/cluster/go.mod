module github.com/offshoot-sdk/offshoot/examples/cluster

go 1.26.0

require (
	github.com/offshoot-sdk/offshoot v0.0.0
	github.com/offshoot-sdk/offshoot/session/pgstore v0.0.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/google/uuid v1.6.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/pgx/v5 v5.13.0 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/text v0.41.0 // indirect
)

replace (
	github.com/offshoot-sdk/offshoot => ../..
	github.com/offshoot-sdk/offshoot/session/pgstore => ../../session/pgstore
)

package pgstore

import (
	"context"
	_ "embed" // the tables
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/mask"
)

// versions are the changes that make the tables, one for each version of them.
var versions = []string{schemaSQL, schema2SQL, schema3SQL}

//go:embed schema.sql
var schemaSQL string

//go:embed schema2.sql
var schema2SQL string

//go:embed schema3.sql
var schema3SQL string

// Open connects to a database and opens the Store in it. It makes the tables if there are none. dsn
// is a connection string of PostgreSQL, a URL or keywords and values; what it leaves out is taken
// from the environment, as psql does. The pool of connections has the size that dsn says by
// pool_max_conns, else four or the number of processors. With Options.Process there are at most six
// more. ctx is for the opening alone.
//
// The caller closes the Store. Everything that was acknowledged is safe without that.
//
// The error is an *[OptionError] for Options that cannot be used, a *[LockedError] if another
// process has the schema open, a *[SettingError] for a server that acknowledges what a crash
// undoes, [session.ErrFormat] if a newer version has made the tables, or an error of the driver,
// such as that of a server that cannot be reached. No error has a password, also if dsn does not
// parse.
func Open(ctx context.Context, dsn string, o Options) (*session.Store, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("pgstore: connection string%s: %w", addressOf(dsn), dsnError(dsn, err))
	}
	o, err = o.withDefaults()
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("pgstore: open: %w", err)
	}
	store, err := openOn(ctx, pool, true, o)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return store, nil
}

// addressOf returns what an error may say of a connection string, after a space: the address of a
// URL, and nothing of keywords and values.
func addressOf(dsn string) string {
	if scheme, _, _ := strings.Cut(dsn, "://"); scheme != "postgres" && scheme != "postgresql" {
		return ""
	}
	return fmt.Sprintf(" %q", mask.Address(dsn))
}

// dsnError returns why a connection string does not parse. The text of the driver repeats the
// string, and leaves out a password only where the string is spelled as usual.
func dsnError(dsn string, err error) error {
	text := err.Error()
	if at := strings.LastIndex(text, "`: "); at >= 0 {
		text = text[at+len("`: "):]
	}
	return mask.Error(errors.New(text), dsn, dsnWords...)
}

// dsnWords are the words of connection strings and of the errors on them that are not secret.
var dsnWords = []string{
	"cannot", "parse", "invalid", "failed", "to", "as", "is", "not", "the", "in", "URL", "keyword",
	"value", "values", "unknown", "read", "host", "hostaddr", "port", "user", "dbname", "database",
	"sslmode", "sslcert", "sslkey", "sslrootcert", "connect_timeout", "target_session_attrs",
	"pool_max_conns", "pool_min_conns", "service", "servicefile", "passfile", "application_name",
	"postgres", "postgresql",
}

// OpenPool opens the Store in the database of a pool that the program has. Closing the Store leaves
// the pool open. Unless the schema is shared, its lock has a connection beside those of the pool.
func OpenPool(ctx context.Context, pool *pgxpool.Pool, o Options) (*session.Store, error) {
	if pool == nil {
		return nil, errNoPool
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return openOn(ctx, pool, false, o)
}

var errNoPool = errors.New("pgstore: there is no pool")

// openOn opens the Store of a pool. It leaves the pool open if it fails.
func openOn(
	ctx context.Context, pool *pgxpool.Pool, owned bool, o Options,
) (store *session.Store, err error) {
	d := &database{pool: pool, owned: owned, schema: o.Schema, timeout: o.Timeout}
	within, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if !o.Shared {
		d.hold, err = takeHold(within, pool.Config().ConnConfig, o.Schema, o.Process != "")
	}
	if err == nil {
		err = d.checkSettings(within, o.TrustSync)
	}
	if err == nil {
		err = d.migrate(within)
	}
	if err == nil && o.Process != "" {
		d.members, err = newOwners(within, d, o)
	}
	if err != nil {
		err = d.callError(ctx, within, err)
		d.hold.release(ctx)
		return nil, openError(o.Schema, err)
	}
	store = &session.Store{Journal: journal{d}, Transcripts: transcripts{d}, Files: files{d}}
	if d.members != nil {
		store.Owners = d.members
	}
	return store, nil
}

// openError returns the error of Open. One that names the schema or the server is whole.
func openError(schema string, err error) error {
	var locked *LockedError
	var setting *SettingError
	if errors.As(err, &locked) || errors.As(err, &setting) {
		return err
	}
	return fmt.Errorf("pgstore: open schema %q: %w", schema, err)
}

// checkSettings returns a *[SettingError] if the server does not keep what it has acknowledged, or
// cannot keep every text.
func (d *database) checkSettings(ctx context.Context, trust bool) error {
	for _, s := range []struct{ name, bad, reason string }{
		{"fsync", "off", "a crash of its machine undoes what it has acknowledged"},
		{"full_page_writes", "off", "a crash of its machine may damage what it has acknowledged"},
		{"synchronous_commit", "off", "a crash undoes what it has just acknowledged"},
	} {
		var value string
		if err := d.pool.QueryRow(ctx, `show `+s.name).Scan(&value); err != nil {
			return err
		}
		if value == s.bad && !trust {
			return &SettingError{s.name, value, s.reason}
		}
	}
	var encoding string
	if err := d.pool.QueryRow(ctx, `show server_encoding`).Scan(&encoding); err != nil {
		return err
	}
	if encoding != "UTF8" {
		return &SettingError{"server_encoding", encoding, "the names of sessions need UTF8"}
	}
	return nil
}

// migrate makes the tables, or brings them up to date. Processes that do so at once wait for each
// other.
func (d *database) migrate(ctx context.Context) error {
	level := pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}
	return pgx.BeginTxFunc(ctx, d.pool, level, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `select pg_advisory_xact_lock(hashtextextended($1, 2))`,
			lockName(d.schema))
		if err != nil {
			return err
		}
		version, err := d.version(ctx, tx)
		switch {
		case err != nil:
			return err
		case version > len(versions):
			return fmt.Errorf("%w: version %d of the tables, this package knows %d",
				session.ErrFormat, version, len(versions))
		case version == len(versions):
			return nil
		}
		for _, change := range versions[version:] {
			// The simple protocol takes several statements at once.
			if _, err := tx.Exec(ctx, d.sql(change), pgx.QueryExecModeSimpleProtocol); err != nil {
				return fmt.Errorf("make the tables: %w", err)
			}
		}
		_, err = tx.Exec(ctx, d.sql(`
			delete from {}.version; insert into {}.version values (`+fmt.Sprint(len(versions))+`)`),
			pgx.QueryExecModeSimpleProtocol)
		return err
	})
}

// version returns the version of the tables, and 0 for a schema that has none. It makes the schema
// unless there is one: an administrator may have made it for a role that may not.
func (d *database) version(ctx context.Context, q querier) (version int, err error) {
	var there bool
	err = q.QueryRow(ctx, `select to_regnamespace($1) is not null`, `"`+d.schema+`"`).Scan(&there)
	if err == nil && !there {
		_, err = q.Exec(ctx, d.sql(`create schema {}`))
	}
	if err == nil {
		err = q.QueryRow(ctx, `select to_regclass($1) is not null`, d.sql(`{}.version`)).Scan(&there)
	}
	if err == nil && !there {
		_, err = q.Exec(ctx, d.sql(`create table {}.version (n integer not null)`))
	}
	if err == nil {
		err = q.QueryRow(ctx, d.sql(`select coalesce(max(n), 0) from {}.version`)).Scan(&version)
	}
	return version, err
}

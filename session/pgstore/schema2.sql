-- Version 2 of the tables: several processes share the schema. A schema that one process has alone
-- has these tables and leaves them empty.

-- The clock by which leases end and trees are due. The clocks of the processes do not count.
create function {}.clock() returns timestamptz volatile language sql as 'select clock_timestamp()';

create sequence {}.incarnations;
create sequence {}.epochs;

-- The last process to join under each name. A lease that ends in the past has lapsed, or was given
-- up.
create table {}.processes (
	name text collate "C" primary key,
	incarnation bigint not null unique,
	until timestamptz not null,
	given_up boolean not null default false
);
create index processes_until on {}.processes (until);

-- A claim stands in the row of the log, so that an append sees it where it looks at the end of the
-- log. owner is an incarnation. The claim holds while that process has a lease. A tree that was
-- claimed before its first append has a row that ends at 0.
alter table {}.logs add column owner bigint, add column epoch bigint;
create index logs_owner on {}.logs (owner, due_sec, due_nsec) where owner is not null;
create index logs_free on {}.logs (due_sec, due_nsec) where due_sec is not null and owner is null;

-- The claims that were taken from a process whose lease had lapsed, until it has said that it
-- knows.
create table {}.taken (
	incarnation bigint not null,
	epoch bigint not null,
	root text collate "C" not null,
	primary key (incarnation, epoch)
);

-- taker is the incarnation of the process that handles the request. asked is when the row was last
-- of use.
create table {}.requests (
	id bytea primary key,
	root text collate "C" not null,
	body bytea not null,
	asked timestamptz not null,
	taker bigint,
	attempt integer not null default 0,
	answered boolean not null default false,
	answer bytea
);
create index requests_open on {}.requests (id) where not answered;
create index requests_asked on {}.requests (asked);

-- doc is the JSON of a lease.Lane. version grows whenever it changes.
create table {}.lanes (
	name bytea primary key,
	version bigint not null default 0,
	doc bytea not null default ''
);

-- Version 1 of the tables. {} is the name of the schema. Each later version is a file of its own,
-- which changes what the version before has left.

-- One row a tree. base is the sequence of the snapshot with which the log begins, 1 without one.
-- The batches between kept and base were replaced: a reader that began before may still want them.
create table {}.logs (
	id bigint generated always as identity primary key,
	root text collate "C" not null unique,
	last bigint not null,
	base bigint not null default 1,
	kept bigint not null default 1,
	due_sec bigint,
	due_nsec integer
);
create index logs_due on {}.logs (due_sec, due_nsec) where due_sec is not null;

-- One row an append. Its entries have the sequences first to last; entries has their JSON values,
-- one a line.
create table {}.batches (
	log bigint not null references {}.logs on delete cascade,
	first bigint not null,
	last bigint not null,
	id bytea not null,
	size integer not null,
	entries bytea not null,
	primary key (log, last)
);

create table {}.members (
	key text collate "C" not null,
	log bigint not null references {}.logs on delete cascade,
	primary key (key, log)
);
create index members_log on {}.members (log);

-- archived is a time in milliseconds since 1970, and name the name that tells it.
create table {}.transcripts (
	id bigint generated always as identity primary key,
	key text collate "C" not null,
	session text collate "C" not null,
	last bigint not null,
	archived bigint,
	name text,
	unique (key, session)
);
create index transcripts_archived on {}.transcripts (id) where archived is not null;

create table {}.lines (
	transcript bigint not null references {}.transcripts on delete cascade,
	pos bigint not null,
	size integer not null,
	line bytea not null,
	primary key (transcript, pos)
);

-- A blob without a hash is not whole: its Put is under way, or was cut off.
create table {}.blobs (
	id bigint generated always as identity primary key,
	key text collate "C" not null,
	session text collate "C" not null,
	hash text collate "C",
	size bigint,
	archived boolean not null default false,
	begun timestamptz not null default now(),
	unique (key, session, hash)
);

create table {}.chunks (
	blob bigint not null references {}.blobs on delete cascade,
	n integer not null,
	data bytea not null,
	primary key (blob, n)
);
alter table {}.chunks alter column data set storage external;

create view {}.conversation as
	select t.key, t.session, l.pos, t.name as archived, convert_from(l.line, 'UTF8') as line
	from {}.transcripts t join {}.lines l on l.transcript = t.id;

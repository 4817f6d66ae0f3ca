-- Version 3. A transcript that was imported has the positions of another Store. prior is then the
-- position of the line before; null: that is one less. placed is the position of the last line that
-- was imported, 0 for none.
alter table {}.lines add column prior bigint;
alter table {}.transcripts add column placed bigint not null default 0;

-- Incarnations come from a sequence, so that no two processes have one. As a constraint of its own
-- that made claims fail which begin a lease at the same moment.
alter table {}.processes drop constraint processes_incarnation_key;
create index processes_incarnation on {}.processes (incarnation);

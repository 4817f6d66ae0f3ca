-- Version 3: a transcript that was imported has the positions of another Store. prior is then the
-- position of the line before; null: that is one less. placed is the position of the last line that
-- was imported, 0 for none.
alter table {}.lines add column prior bigint;
alter table {}.transcripts add column placed bigint not null default 0;

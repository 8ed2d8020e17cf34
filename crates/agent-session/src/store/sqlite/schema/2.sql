-- The numbers of lines and of acknowledged records and the summary, as a line with a checksum; nothing for a session of
-- version 1, which has rows in `loops` and `messages`.
ALTER TABLE sessions ADD COLUMN sealed BLOB;

-- The rows of sessions by their ids, beside the index of `sessions`, so that damage of one of them hides no session.
CREATE TABLE ids (
    id TEXT PRIMARY KEY,
    session INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO ids (id, session) SELECT id, session FROM sessions;

-- The lines of a saved session, in the form of its file.
CREATE TABLE lines (
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    n INTEGER NOT NULL,
    line BLOB NOT NULL,
    PRIMARY KEY (session, n)
) STRICT, WITHOUT ROWID;

-- The session of each message that is found by its words.
CREATE TABLE said (
    message INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE
) STRICT;
CREATE INDEX said_session ON said (session);
CREATE VIRTUAL TABLE said_words USING fts5 (
    words, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii'
);
CREATE TRIGGER said_gone AFTER DELETE ON said BEGIN
    DELETE FROM said_words WHERE rowid = old.message;
END;

-- The number of the last transaction, which the file beside the database has, too.
CREATE TABLE transactions (
    number INTEGER NOT NULL
) STRICT;
INSERT INTO transactions VALUES (0);

CREATE TABLE sessions (
    session INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    last_active_at INTEGER NOT NULL,
    parent TEXT,
    title TEXT,
    status TEXT,
    loops INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    -- The number of the last change to any session when this one was last written.
    changed INTEGER NOT NULL,
    -- The session's own fields as JSON.
    head TEXT NOT NULL
) STRICT;
CREATE INDEX sessions_agent ON sessions (agent);
CREATE INDEX sessions_created ON sessions (created_at);
CREATE INDEX sessions_active ON sessions (last_active_at);
CREATE INDEX sessions_cost ON sessions (cost);
CREATE INDEX sessions_tokens ON sessions (tokens);
CREATE INDEX sessions_status ON sessions (status);
CREATE INDEX sessions_parent ON sessions (parent);
CREATE INDEX sessions_changed ON sessions (changed);

CREATE TABLE models (
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    model TEXT NOT NULL,
    PRIMARY KEY (session, model)
) STRICT, WITHOUT ROWID;
CREATE INDEX models_model ON models (model);

CREATE TABLE loops (
    loop INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    position INTEGER NOT NULL,
    id TEXT NOT NULL,
    -- How many messages of each list the JSON counts on.
    own INTEGER NOT NULL,
    other INTEGER NOT NULL,
    -- The loop as JSON without its messages; nothing while it is only in records.
    body TEXT,
    UNIQUE (session, id)
) STRICT;

CREATE TABLE messages (
    message INTEGER PRIMARY KEY,
    loop INTEGER NOT NULL REFERENCES loops ON DELETE CASCADE,
    session INTEGER NOT NULL,
    -- 0 for the loop's own, 1 for the others.
    list INTEGER NOT NULL,
    place INTEGER NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (loop, list, place)
) STRICT;

CREATE INDEX messages_session ON messages (session);

-- The session of each message that is found by its words: small rows, so that many are looked up at once.
CREATE TABLE places (
    message INTEGER PRIMARY KEY REFERENCES messages ON DELETE CASCADE,
    session INTEGER NOT NULL
) STRICT;

CREATE TABLE records (
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    number INTEGER NOT NULL,
    line TEXT NOT NULL,
    PRIMARY KEY (session, number)
) STRICT;

-- The words are made by the store, one space between two; their places and the texts are not kept here.
CREATE VIRTUAL TABLE texts USING fts5 (
    words, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii'
);
CREATE TRIGGER messages_gone AFTER DELETE ON messages WHEN old.list = 0 BEGIN
    DELETE FROM texts WHERE rowid = old.message;
END;

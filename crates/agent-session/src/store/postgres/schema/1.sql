-- The version of the tables. It has one row.
CREATE TABLE looptree_store (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    version integer NOT NULL
);

-- The numbers of leases. A later lease has a greater number than each earlier one.
CREATE SEQUENCE fences;

-- The order in which sessions were written.
CREATE SEQUENCE changes;

-- One row for each session. Columns with texts of others are bytes, because texts cannot have the character 0 here.
CREATE TABLE sessions (
    session bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    agent bytea NOT NULL,
    parent bytea,
    models bytea[] NOT NULL,
    created_at bigint NOT NULL,
    last_active_at bigint NOT NULL,
    status text,
    tokens bigint NOT NULL,
    cost bigint NOT NULL,
    -- Whether a call was deferred; nothing if that is not known.
    deferred boolean,
    changed bigint NOT NULL,
    -- The number of the last acknowledged record.
    records bigint NOT NULL,
    -- The numbers of lines and of acknowledged records and the summary, as a line with a checksum.
    sealed bytea NOT NULL
);
CREATE INDEX sessions_changed ON sessions (changed);
CREATE INDEX sessions_active ON sessions (last_active_at, id);
CREATE INDEX sessions_agent ON sessions (agent);
CREATE INDEX sessions_parent ON sessions (parent) WHERE parent IS NOT NULL;
CREATE INDEX sessions_open ON sessions (changed)
    WHERE status NOT IN ('Completed', 'Rejected', 'Stopped', 'Failed');
CREATE INDEX sessions_deferring ON sessions (changed) WHERE deferred IS NOT FALSE;

-- The lines of a saved session, in the form of its file.
CREATE TABLE lines (
    session bigint NOT NULL REFERENCES sessions ON DELETE CASCADE,
    n bigint NOT NULL,
    line bytea NOT NULL,
    PRIMARY KEY (session, n)
);

-- The records since the last save.
CREATE TABLE records (
    session bigint NOT NULL REFERENCES sessions ON DELETE CASCADE,
    number bigint NOT NULL,
    line bytea NOT NULL,
    PRIMARY KEY (session, number)
);

-- The words of each message. A message with very many words has several parts.
CREATE TABLE said (
    session bigint NOT NULL REFERENCES sessions ON DELETE CASCADE,
    message bigint NOT NULL,
    part integer NOT NULL,
    is_split boolean NOT NULL,
    words tsvector NOT NULL,
    PRIMARY KEY (session, message, part)
);
CREATE INDEX said_words ON said USING gin (words);
CREATE INDEX said_split ON said (session) WHERE is_split;

-- The right to write a session, until a time of the server's clock.
CREATE TABLE leases (
    id text COLLATE "C" PRIMARY KEY,
    fence bigint NOT NULL,
    owner text NOT NULL,
    expires_at timestamptz NOT NULL
);

INSERT INTO looptree_store (version) VALUES (1);

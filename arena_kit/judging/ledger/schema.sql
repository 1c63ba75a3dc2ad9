-- What is paid for. An intent is written before a batch is created and
-- names each of its requests; the batch's id follows, then every result line; `answers`
-- keeps what is final, whatever its status. An attempt belongs to the run that got its
-- result, which may not be the run that sent it. The index and the trigger are the guard: no
-- request is ever under way twice, and none is sent that has an answer.
CREATE TABLE answers (
    key TEXT NOT NULL PRIMARY KEY, judge_model TEXT NOT NULL, request_id TEXT NOT NULL,
    status TEXT NOT NULL, text TEXT NOT NULL, served_model TEXT NOT NULL, usage TEXT NOT NULL,
    cost_usd REAL NOT NULL, detail TEXT NOT NULL, run TEXT NOT NULL DEFAULT '',
    created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    checksum TEXT NOT NULL DEFAULT ''
);

CREATE TABLE requests (
    request INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, request_id TEXT NOT NULL
);

CREATE TABLE intents (
    intent TEXT NOT NULL PRIMARY KEY,
    transport TEXT NOT NULL CHECK (transport IN ('batches', 'live')),
    state TEXT NOT NULL CHECK (state IN ('planned', 'submitted', 'closed', 'void', 'given_up')),
    origin TEXT NOT NULL, account TEXT NOT NULL, model TEXT NOT NULL, purpose TEXT NOT NULL,
    settings TEXT NOT NULL, run TEXT NOT NULL, n_requests INTEGER NOT NULL, newest_seen TEXT,
    planned_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) WITHOUT ROWID;

CREATE TABLE batches (
    batch_id TEXT NOT NULL PRIMARY KEY, intent TEXT NOT NULL UNIQUE REFERENCES intents,
    created_at TEXT NOT NULL, expires_at TEXT NOT NULL, status TEXT NOT NULL,
    recorded_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) WITHOUT ROWID;

CREATE TABLE attempts (
    intent TEXT NOT NULL REFERENCES intents, request INTEGER NOT NULL REFERENCES requests,
    outcome TEXT, run TEXT, cost_usd REAL NOT NULL DEFAULT 0,
    usd_unknown REAL NOT NULL DEFAULT 0, detail TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (intent, request)
) WITHOUT ROWID;

CREATE UNIQUE INDEX under_way_once ON attempts (request) WHERE outcome IS NULL;

CREATE TRIGGER answered_once BEFORE INSERT ON attempts
    WHEN EXISTS (SELECT 1 FROM requests JOIN answers USING (key) WHERE request = NEW.request)
    BEGIN SELECT RAISE(ABORT, 'a request that is already answered was about to be sent'); END;

CREATE TABLE result_lines (
    intent TEXT NOT NULL REFERENCES intents, request INTEGER NOT NULL REFERENCES requests,
    line TEXT NOT NULL
);

CREATE TABLE holder (
    one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    pid INTEGER NOT NULL, host TEXT NOT NULL, run TEXT NOT NULL,
    since TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
);

CREATE INDEX attempts_by_run ON attempts (run) WHERE run IS NOT NULL;

CREATE TABLE secrets (name TEXT NOT NULL PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;

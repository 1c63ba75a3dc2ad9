BEGIN TRANSACTION;
CREATE TABLE head_to_head (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    response_id_slug TEXT NOT NULL,
    response_a_id INTEGER NOT NULL,
    response_b_id INTEGER NOT NULL,
    judge_id INTEGER NOT NULL,
    created TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
    winner TEXT NOT NULL,
    FOREIGN KEY (response_a_id) REFERENCES response (id) ON DELETE CASCADE,
    FOREIGN KEY (response_b_id) REFERENCES response (id) ON DELETE CASCADE,
    FOREIGN KEY (judge_id) REFERENCES judge (id) ON DELETE CASCADE,

    UNIQUE (response_id_slug, judge_id)
);
INSERT INTO "head_to_head" VALUES(1,'1-3',1,3,1,'2026-11-16 21:33:30','A');
INSERT INTO "head_to_head" VALUES(2,'2-4',2,4,1,'2026-11-16 21:33:30','-');
CREATE TABLE judge (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    judge_type TEXT NOT NULL,
    created TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
    name TEXT NOT NULL UNIQUE,
    model_name TEXT,
    system_prompt TEXT,
    description TEXT NOT NULL,
    enabled BOOLEAN NOT NULL DEFAULT FALSE
);
INSERT INTO "judge" VALUES(1,'human','2026-11-16 21:33:30','people',NULL,NULL,'Manual votes submitted via the ''Head-to-Head'' tab',1);
CREATE TABLE migration (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    migration_index INTEGER NOT NULL UNIQUE,
    filename TEXT NOT NULL UNIQUE,
    created TIMESTAMPTZ NOT NULL DEFAULT current_timestamp
);
INSERT INTO "migration" VALUES(1,0,'000__schema.sql','2026-11-16 21:33:30');
CREATE TABLE model (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    created TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
    name TEXT NOT NULL UNIQUE,
    elo DOUBLE PRECISION NOT NULL DEFAULT 1000,
    q025 DOUBLE PRECISION,
    q975 DOUBLE PRECISION
);
INSERT INTO "model" VALUES(1,'2026-11-16 21:33:30','x',1000.0,NULL,NULL);
INSERT INTO "model" VALUES(2,'2026-11-16 21:33:30','y',1000.0,NULL,NULL);
CREATE TABLE response (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    model_id INTEGER NOT NULL,
    created TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
    prompt TEXT NOT NULL,
    response TEXT NOT NULL,
    FOREIGN KEY (model_id) REFERENCES model (id) ON DELETE CASCADE,

    UNIQUE (model_id, prompt)
);
INSERT INTO "response" VALUES(1,1,'2026-11-16 21:33:30','Why?','x 1');
INSERT INTO "response" VALUES(2,1,'2026-11-16 21:33:30','How?','x 2');
INSERT INTO "response" VALUES(3,2,'2026-11-16 21:33:30','Why?','y 1');
INSERT INTO "response" VALUES(4,2,'2026-11-16 21:33:30','How?','y 2');
CREATE TABLE task (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    task_type TEXT NOT NULL,
    created TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
    progress DOUBLE PRECISION NOT NULL DEFAULT 0,
    status TEXT NOT NULL,
    logs TEXT NOT NULL DEFAULT ''
);
CREATE INDEX response_prompt_idx ON response (prompt);
COMMIT;

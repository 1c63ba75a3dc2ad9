CREATE TABLE alembic_version (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE arena (
  one INTEGER NOT NULL CONSTRAINT ck_arena_one CHECK (one = 1),
  name TEXT NOT NULL,
  dimension TEXT,
  seed TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  openings BIGINT NOT NULL,
  openings_head TEXT NOT NULL,
  tickets BIGINT NOT NULL,
  tickets_head TEXT NOT NULL,
  votes BIGINT NOT NULL,
  votes_head TEXT NOT NULL,
  removals BIGINT NOT NULL,
  removals_head TEXT NOT NULL,
  CONSTRAINT pk_arena PRIMARY KEY (one)
);
CREATE TABLE openings (
  number BIGINT NOT NULL,
  opened_at BIGINT NOT NULL,
  version TEXT NOT NULL,
  policy TEXT NOT NULL,
  texts TEXT NOT NULL,
  models TEXT NOT NULL,
  checksum TEXT NOT NULL,
  CONSTRAINT pk_openings PRIMARY KEY (number)
);
CREATE TABLE removals (
  number BIGINT NOT NULL,
  kind TEXT NOT NULL CONSTRAINT ck_removals_kind CHECK (kind IN ('voter', 'session', 'vote')),
  target TEXT NOT NULL,
  undone BIGINT NOT NULL,
  why TEXT NOT NULL,
  "by" TEXT NOT NULL,
  at BIGINT NOT NULL,
  checksum TEXT NOT NULL,
  CONSTRAINT pk_removals PRIMARY KEY (number)
);
CREATE TABLE tickets (
  number BIGINT NOT NULL,
  ticket TEXT NOT NULL,
  copy_of TEXT,
  session TEXT NOT NULL,
  voter TEXT,
  model_a TEXT NOT NULL,
  model_b TEXT NOT NULL,
  prompt TEXT NOT NULL,
  dimension TEXT,
  lane TEXT NOT NULL,
  reason TEXT NOT NULL,
  digest TEXT NOT NULL,
  issued_at BIGINT NOT NULL,
  expires_at BIGINT,
  checksum TEXT NOT NULL,
  CONSTRAINT pk_tickets PRIMARY KEY (number),
  CONSTRAINT uq_tickets_ticket UNIQUE (ticket),
  CONSTRAINT fk_tickets_copy_of FOREIGN KEY(copy_of) REFERENCES tickets (ticket)
);
CREATE INDEX ix_tickets_voter ON tickets (voter, issued_at);
CREATE TABLE votes (
  number BIGINT NOT NULL,
  ticket TEXT NOT NULL,
  voter TEXT NOT NULL,
  session TEXT NOT NULL,
  choice TEXT NOT NULL CONSTRAINT ck_votes_choice CHECK (choice IN ('A', 'B', 'TIE', 'BOTH_BAD', 'SKIP')),
  cast_at BIGINT NOT NULL,
  seconds FLOAT,
  source TEXT NOT NULL CONSTRAINT ck_votes_source CHECK (source IN ('page', 'ballot', 'lab')),
  revealed BIGINT NOT NULL,
  known BIGINT NOT NULL,
  checksum TEXT NOT NULL,
  CONSTRAINT pk_votes PRIMARY KEY (number),
  CONSTRAINT uq_votes_ticket UNIQUE (ticket),
  CONSTRAINT fk_votes_ticket FOREIGN KEY(ticket) REFERENCES tickets (ticket)
);
CREATE INDEX ix_votes_voter ON votes (voter);
INSERT INTO alembic_version VALUES ('0002');

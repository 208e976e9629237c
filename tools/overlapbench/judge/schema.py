"""The tables of a history, which are append-only.

SQLite marks the file as ours by APPLICATION (`PRAGMA application_id`) and with the VERSION of its
tables (`PRAGMA user_version`).
"""

APPLICATION = 0x6F6C6270  # "olbp"
VERSION = 1

# Makes an empty file a history, also if two processes run it at once.
SCRIPT = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS machine (
    id INTEGER PRIMARY KEY,
    fields TEXT NOT NULL UNIQUE       -- JSON: what makes figures comparable
) STRICT;
CREATE TABLE IF NOT EXISTS run (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,      -- SHA-256 of the file
    date TEXT NOT NULL,               -- of the measurement, ISO 8601 in UTC
    revision TEXT NOT NULL,
    host TEXT NOT NULL,
    machine INTEGER NOT NULL REFERENCES machine (id),
    source TEXT NOT NULL,             -- the file's name when it was added
    benchmarks INTEGER NOT NULL,      -- how many it has, and how many of them are bad
    problems INTEGER NOT NULL,
    added TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%S+00:00', 'now')),
    document BLOB NOT NULL            -- the file, compressed with zlib
) STRICT;
CREATE TABLE IF NOT EXISTS benchmark (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE IF NOT EXISTS measurement (
    benchmark INTEGER NOT NULL REFERENCES benchmark (id),
    run INTEGER NOT NULL REFERENCES run (id),
    repetitions INTEGER NOT NULL,
    problem TEXT NOT NULL,            -- empty for a good row
    figures TEXT NOT NULL,            -- JSON: metric to the median of its repetitions
    PRIMARY KEY (benchmark, run)
) STRICT;
CREATE INDEX IF NOT EXISTS measurement_of_run ON measurement (run);
CREATE TABLE IF NOT EXISTS counters (
    id INTEGER PRIMARY KEY,
    content TEXT NOT NULL UNIQUE      -- JSON: a result's table of counters
) STRICT;
CREATE TABLE IF NOT EXISTS counters_of_run (
    run INTEGER PRIMARY KEY REFERENCES run (id),
    counters INTEGER NOT NULL REFERENCES counters (id)
) STRICT;
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
COMMIT;
"""

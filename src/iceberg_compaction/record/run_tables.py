"""The tables of a run store, as SQLAlchemy describes them. Names and types are those of the first version, so that each
version reads files of every other. Values that are not searched for are inside the JSON of `record`, `start` and
`attempt`."""

from __future__ import annotations

import sqlalchemy
from sqlalchemy import BigInteger, Column, Index, Integer, Table, Text

METADATA = sqlalchemy.MetaData()

RUNS = Table(
    "runs",
    METADATA,
    Column("run_id", Text, primary_key=True),
    Column("table_name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("started_ms", BigInteger, nullable=False),
    Column("finished_ms", BigInteger, nullable=False),
    Column("record", Text, nullable=False),  # RunRecord
    Index("runs_by_start", "started_ms"),
)

JOURNAL = Table(
    "journal",
    METADATA,
    Column("run_id", Text, primary_key=True),
    Column("table_uuid", Text, nullable=False),
    Column("start", Text, nullable=False),  # RunStart
    Column("seen_ms", BigInteger, nullable=False, key="heartbeat_ms"),
    Column("ended", Integer, nullable=False, server_default=sqlalchemy.text("0")),
    Column("attempt", Text),  # Attempt, the last one
    Column("settled_ms", BigInteger, key="recovered_ms"),
    Index("journal_by_table", "table_uuid"),
)

# Values of `ended`.
RUNNING, ENDED = 0, 1
TAKEN_OVER = 2  # another run has declared it dead, and it cannot take that back

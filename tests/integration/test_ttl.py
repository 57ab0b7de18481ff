"""Rows past their time leave a table by whole files; every other row stays, also after races and with old plans."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import DayTransform, VoidTransform
from pyiceberg.types import DateType, LongType, NestedField, StringType, TimestamptzType
from tests.factories import manifests
from tests.factories.examples import examples
from tests.factories.lake import file_lake, make_table
from typer.testing import CliRunner

from iceberg_compaction import Compactor, errors
from iceberg_compaction.interfaces.cli.app import app
from iceberg_compaction.model.outcome import Kind, Maintained

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table
    from tests.factories.lake import Lake

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "ts", TimestamptzType()),
    NestedField(3, "day", DateType()),
    NestedField(4, "epoch", LongType()),
    NestedField(5, "name", StringType()),
)
BY_DAY = PartitionSpec(PartitionField(2, 1000, DayTransform(), "ts_day"), spec_id=0)
VOID = PartitionSpec(PartitionField(2, 1000, VoidTransform(), "ts_void"), spec_id=0)
START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
UNITS = {"epoch": "ms"}


def rows(*days: float | None, first: int = 0) -> pa.Table:
    """A row for each day since START; None: a row without times."""
    moments = [None if day is None else START + dt.timedelta(days=day) for day in days]
    columns: dict[str, list[Any]] = {
        "id": list(range(first, first + len(days))),
        "ts": moments,
        "day": [None if moment is None else moment.date() for moment in moments],
        "epoch": [None if moment is None else int(moment.timestamp() * 1000) for moment in moments],
        "name": [f"n{day}" for day in days],
    }
    return pa.table(columns, schema=SCHEMA.as_arrow())


@pytest.fixture
def lake(local_lake: Lake) -> Lake:
    return local_lake


def make(lake: Lake, name: str, *files: tuple[float | None, ...], spec: PartitionSpec | None = None) -> Table:
    table = make_table(lake.catalog, lake.name(name), SCHEMA, **({} if spec is None else {"spec": spec}))
    for number, days in enumerate(files):
        table.append(rows(*days, first=100 * number))
    return table


def ids(table: Table) -> list[int]:
    return sorted(table.refresh().scan().to_arrow()["id"].to_pylist())


@pytest.mark.parametrize(("days", "counted", "left"), [((0, 1), False, 0), ((0, 1), True, 0), ((0, None), True, 1)])
def test_a_file_whose_nulls_nobody_counted_does_not_empty_a_table(
    lake: Lake, days: tuple[float | None, ...], counted: bool, left: int
) -> None:
    written = make(lake, "written", days)
    (path,) = written.inspect.data_files()["file_path"].to_pylist()
    file = manifests.data_file_of(written, path)
    names = ("file_path", "record_count", "file_size_in_bytes", "lower_bounds", "upper_bounds", "value_counts")
    facts = {name: getattr(file, name) for name in (*names, *(["null_value_counts"] if counted else []))}
    file = manifests.fake_data_file(written, "", **facts)
    table = manifests.add_files(make(lake, "t"), [file])
    compactor = Compactor(lake.catalog, engine="inline")
    goal = {"column": "ts", "before": "2026-06-01", "rows": "rewrite"}
    if left:
        assert compactor.expire_rows(lake.name("t"), **goal).kind is Kind.MAINTAINED
        assert len(ids(table)) == left
        return
    with pytest.raises(errors.ConfigError, match="--even-everything"):
        compactor.plan_ttl(lake.name("t"), **goal)
    assert len(ids(table)) == len(days)
    assert compactor.expire_rows(lake.name("t"), **goal, even_everything=True).kind is Kind.MAINTAINED
    assert ids(table) == []


@pytest.mark.parametrize("column", ["ts", "day", "epoch"])
@pytest.mark.parametrize("spec", [None, BY_DAY, VOID], ids=["unpartitioned", "by-day", "void"])
def test_files_go_whose_rows_are_all_past_their_time(lake: Lake, column: str, spec: PartitionSpec | None) -> None:
    table = make(lake, "t", (0, 1), (1, 2, None), (9, 10), (None,), spec=spec)
    compactor = Compactor(lake.settings, engine="inline")
    result = compactor.expire_rows(lake.name("t"), column=column, before="2026-01-05T00:00:00", unit=UNITS.get(column))
    assert isinstance(result, Maintained)
    left = ids(table)
    stays = {100, 101, 102, 200, 201, 300} if spec is not BY_DAY else {102, 200, 201, 300}
    assert set(left) == stays
    summary = table.current_snapshot().summary  # type: ignore[union-attr]
    assert summary is not None
    assert summary.operation is Operation.DELETE
    assert summary["total-records"] == str(len(stays))
    assert result.figures["rows"] == 8 - len(stays)
    again = compactor.expire_rows(lake.name("t"), column=column, before="2026-01-05", unit=UNITS.get(column))
    assert again.kind is Kind.HEALTHY


def test_a_moment_within_a_day_or_second_keeps_all_of_it(lake: Lake) -> None:
    table = make(lake, "t", (0.25,), (1.25,), (9,))
    compactor = Compactor(lake.settings, engine="inline")
    assert compactor.expire_rows(lake.name("t"), column="day", before="2026-01-02T18:00:00").kind is Kind.MAINTAINED
    assert ids(table) == [100, 200]  # the second day has not ended
    assert compactor.expire_rows(lake.name("t"), column="ts", before="2026-01-02T18:00:00").kind is Kind.MAINTAINED
    assert ids(table) == [200]


def test_a_partition_may_have_to_go_as_a_whole(lake: Lake) -> None:
    table = make(lake, "t", (0.1,), (0.9,), (3.5,), spec=BY_DAY)
    compactor = Compactor(lake.settings, engine="inline")
    goal = {"column": "ts", "before": "2026-01-01T12:00:00"}
    plan = compactor.plan_ttl(lake.name("t"), **goal, whole_partitions=True)
    assert plan.empty
    assert [(step.name, step.count) for step in plan.kept] == [("files of other partitions", 1), ("newer files", 2)]
    compactor.expire_rows(lake.name("t"), **goal)
    assert ids(table) == [100, 200]


def test_age_counts_from_the_last_write_and_no_housekeeping_is_one(lake: Lake) -> None:
    table = make(lake, "t", (0,), (1,), (2,), (3,), (4,))
    written = table.refresh().current_snapshot().timestamp_ms  # type: ignore[union-attr]
    compactor = Compactor(lake.settings, engine="inline", options={"min-input-files": 2})
    assert compactor.compact_table(lake.name("t")).kind is Kind.COMPACTED
    plan = compactor.plan_ttl(lake.name("t"), column="ts", older_than="1d", since="last-write", even_everything=True)
    assert plan.before_micros == (written - 86_400_000) * 1000


def test_what_cannot_be_meant_is_told_in_a_sentence(lake: Lake) -> None:
    make(lake, "t", (0,), (1,))
    compactor = Compactor(lake.settings, engine="inline")
    for given_, sentence in (
        ({"column": "tss", "older_than": "1d"}, "no column 'tss'"),
        ({"column": "name", "older_than": "1d"}, "Column name is a string"),
        ({"column": "epoch", "older_than": "1d"}, "say what it counts with --unit"),
        ({"column": "ts", "older_than": "1d", "unit": "ms"}, "needs no unit"),
        ({"column": "ts", "older_than": "1d", "unit": "weeks"}, "Wrong value for unit"),
        ({"column": "ts"}, "either --older-than"),
        ({"column": "ts", "older_than": "1d", "before": "2026-01-01"}, "either --older-than"),
        ({"column": "ts", "before": "yesterday"}, "is not a moment"),
        ({"column": "ts", "older_than": "1d"}, "No row of db.t would be left"),
    ):
        with pytest.raises(errors.ConfigError, match=sentence):
            compactor.plan_ttl(lake.name("t"), **given_)


def test_an_old_plan_removes_only_files_that_it_names(lake: Lake, tmp_path: Path) -> None:
    table = make(lake, "t", (0,), (1,), (9,))
    plan = tmp_path / "ttl.json"
    flags = ["--catalog-uri", str(lake.settings.uri), "--no-progress"]
    goal = ["ttl", "--table", "db.t", "--column", "ts", "--before", "2026-01-05", *flags]
    shown = CliRunner().invoke(app, [*goal, "--out", str(plan)])
    assert shown.exit_code == 0, shown.output
    assert ids(table) == [0, 100, 200]
    table.append(rows(2, first=900))  # as old, but not in the plan
    table.delete("id == 100")  # in the plan, and gone
    done = CliRunner().invoke(app, ["apply", str(plan), "--engine", "inline", "--output", "json", *flags])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["figures"]["rows"] == 1
    assert ids(table) == [200, 900]


def test_people_see_what_goes_what_stays_and_why(lake: Lake) -> None:
    make(lake, "t", (0, 1), (3, 9), (9,))
    flags = ["--catalog-uri", str(lake.settings.uri), "--column", "ts", "--before", "2026-01-05", "--no-progress"]
    shown = CliRunner().invoke(app, ["ttl", "--table", "db.t", "--dry-run", *flags])
    assert shown.exit_code == 0
    for words in ("1 data file with 2 rows", "ts is before 2026-01-05", "files with rows on both sides", "newer files"):
        assert words in " ".join(shown.stdout.split())
    done = CliRunner().invoke(app, ["ttl", "--table", "db.t", *flags])
    assert done.exit_code == 0
    assert "left the table in snapshot" in done.stdout
    assert "time travel" in done.stdout


def test_rows_that_share_a_file_with_newer_ones_go_by_a_rewrite(lake: Lake) -> None:
    table = make(lake, "t", (0, 1, None, 9), (8, 9), (None, None), (3, None))
    compactor = Compactor(lake.settings, engine="inline")
    result = compactor.expire_rows(lake.name("t"), column="ts", before="2026-01-05", rows="rewrite")
    assert isinstance(result, Maintained)
    assert ids(table) == [2, 3, 100, 101, 200, 201, 301]
    assert result.figures == {"data-files": 0, "rows": 3, "rewritten-files": 2}
    summary = table.current_snapshot().summary  # type: ignore[union-attr]
    assert summary is not None
    assert (summary.operation, summary["total-records"]) == (Operation.OVERWRITE, "7")
    again = compactor.expire_rows(lake.name("t"), column="ts", before="2026-01-05", rows="rewrite")
    assert again.kind is Kind.HEALTHY
    assert "Nothing to do" in again.sentence


def test_a_run_is_verified_against_the_rows_that_it_took_out(lake: Lake, tmp_path: Path) -> None:
    make(lake, "t", (0, 1), (1, 9), (8, 9))
    compactor = Compactor(lake.settings, engine="inline", state=str(tmp_path / "runs.db"))
    result = compactor.expire_rows(lake.name("t"), column="ts", before="2026-01-05", rows="rewrite")
    assert len(result.snapshot_ids) == 2
    check = compactor.verify(result.run_id)
    assert check.verdict.value == "proved", check.sentence
    plan = compactor.plan_undo(result.run_id)
    assert plan.way.value in ("rollback", "refused")
    undone = compactor.undo(result.run_id)
    assert undone.kind is not Kind.UNDONE  # an undo keeps the rows of the table, and these are others


def test_files_without_bounds_stay_and_are_not_rewritten_each_time(lake: Lake) -> None:
    name = lake.name("t")
    off = {"write.metadata.metrics.default": "none"}
    table = make_table(lake.catalog, name, SCHEMA, properties=off)
    table.append(rows(0, 9))
    plan = Compactor(lake.settings, engine="inline").plan_ttl(name, column="ts", before="2026-01-05", rows="rewrite")
    assert plan.empty
    assert [(step.name, step.count) for step in plan.kept] == [("files with rows on both sides", 1)]


DAYS = st.one_of(st.none(), st.integers(0, 6).map(float), st.floats(0, 6).map(lambda day: round(day, 3)))


@examples(12)
@given(
    st.lists(st.lists(DAYS, min_size=1, max_size=4), min_size=1, max_size=4),
    st.floats(0, 7),
    st.booleans(),
    st.sampled_from(["keep", "rewrite"]),
)
def test_no_row_leaves_that_is_newer_or_has_no_time(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[float | None]], cut: float, parted: bool, rest: str
) -> None:
    lake = file_lake(tmp_path_factory.mktemp("ttl"))
    try:
        table = make(lake, "t", *map(tuple, files), spec=BY_DAY if parted else None)
        before = START + dt.timedelta(days=round(cut, 3))
        compactor = Compactor(lake.settings, engine="inline")
        moment = before.strftime("%Y-%m-%dT%H:%M:%S.%f")
        goal = {"column": "ts", "before": moment, "even_everything": True, "rows": rest}
        compactor.expire_rows(lake.name("t"), **goal)
        left = set(ids(table))
        for number, days in enumerate(files):
            old = [day is not None and START + dt.timedelta(days=day) < before for day in days]
            for at, is_old in enumerate(old):
                assert is_old or 100 * number + at in left
            if all(old) or rest == "rewrite":
                assert not left & {100 * number + at for at, is_old in enumerate(old) if is_old}
        assert compactor.expire_rows(lake.name("t"), **goal).kind is Kind.HEALTHY
    finally:
        lake.catalog.close()

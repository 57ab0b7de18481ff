"""`where` keeps every file that holds a matching row, and leaves out files that metadata rules out."""

from __future__ import annotations

import datetime
import itertools
import math
import random
import struct
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st
from pyiceberg import transforms, types
from pyiceberg.conversions import to_bytes
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.utils.datetime import to_human_day, to_human_timestamp
from pyiceberg.utils.truncate import truncate_upper_bound_binary_string, truncate_upper_bound_text_string
from tests.factories import lake as lakes
from tests.factories import manifests
from tests.factories.examples import examples

from iceberg_compaction import errors
from iceberg_compaction.metadata import look
from iceberg_compaction.metadata.filter import where_clause
from iceberg_compaction.metadata.manifest import live_files, snapshot_manifests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

DAY = 86_400_000_000

# Column → type, values (few and near each other, so that filters hit), how a filter writes one, transforms.
COLUMNS: dict[str, tuple[types.PrimitiveType, list[Any], Callable[[Any], str], list[str]]] = {
    "i": (types.IntegerType(), [-3, -1, 0, 1, 2, 7, 2**31 - 1], str, ["identity", "bucket[3]", "truncate[3]"]),
    "l": (types.LongType(), [-9, -1, 0, 4, 5, 2**40], str, ["identity", "bucket[2]", "truncate[10]"]),
    "f": (types.FloatType(), [-1.5, -0.0, 0.0, 0.1, 2.5, math.nan, math.inf], lambda v: f"{v:.3f}", ["identity"]),
    "d": (types.DoubleType(), [-1.5, -0.0, 0.0, 0.1, 2.5, math.nan, -math.inf], lambda v: f"{v:.3f}", ["identity"]),
    "c": (
        types.DecimalType(9, 2),
        [Decimal("-1.50"), Decimal("-0.01"), Decimal("0.00"), Decimal("0.99"), Decimal("12.34")],
        str,
        ["identity", "bucket[3]", "truncate[50]"],
    ),
    "s": (
        types.StringType(),
        ["", "a", "ab", "abc", "abd", "b", "é", "é9", "\U0001f600z", "zz"],
        lambda v: f"'{v}'",
        ["identity", "bucket[3]", "truncate[1]", "truncate[2]"],
    ),
    "b": (types.BooleanType(), [True, False], lambda v: str(v).lower(), ["identity"]),
    "x": (types.BinaryType(), [b"", b"a", b"ab", b"b"], lambda v: f"'{v.decode()}'", ["identity", "truncate[1]"]),
    "u": (
        types.UUIDType(),
        [uuid.UUID(int=n) for n in (0, 1, 2**127, 2**128 - 1)],
        lambda v: f"'{v}'",
        ["identity", "bucket[3]"],
    ),
    "day": (
        types.DateType(),
        [-400, -366, -365, -1, 0, 1, 31, 20_000],
        lambda v: f"'{to_human_day(v)}'",
        ["identity", "year", "month", "day", "bucket[2]"],
    ),
    "ts": (
        types.TimestampType(),
        [-366 * DAY, -DAY, -DAY - 1, -1, 0, 1, DAY - 1, DAY, 20_000 * DAY + 1],
        lambda v: f"'{to_human_timestamp(v)}'",
        ["identity", "year", "month", "day", "hour", "bucket[2]"],
    ),
}
NAMES = list(COLUMNS)
SCHEMA = Schema(*(types.NestedField(i, n, COLUMNS[n][0], required=False) for i, n in enumerate(NAMES, start=1)))
ORDERED = ("<", "<=", ">", ">=", "=", "!=")

Row = dict[str, Any]
Truth = "Callable[[Row, Semantics], bool | None]"


class Semantics:
    """How an engine compares: is NaN the greatest number, are floats compared in single precision."""

    def __init__(self, *, nan_greatest: bool, single: bool) -> None:
        self.nan_greatest, self.single = nan_greatest, single

    def compare(self, operator: str, left: Any, right: Any, *, is_float: bool) -> bool | None:
        if left is None:
            return None
        if isinstance(left, float) and math.isnan(left):
            return {"!=": True, ">": self.nan_greatest, ">=": self.nan_greatest}.get(operator, False)
        if is_float:
            left = struct.unpack("<f", struct.pack("<f", left))[0]
            right = struct.unpack("<f", struct.pack("<f", right))[0] if self.single else right
        if isinstance(left, uuid.UUID):
            left, right = left.bytes, right.bytes
        results = {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}
        return (results | {"=": left == right, "!=": left != right})[operator]


ALL_SEMANTICS = [Semantics(nan_greatest=n, single=s) for n, s in itertools.product((True, False), repeat=2)]


def either(left: bool | None, right: bool | None) -> bool | None:
    return True if left or right else None if left is None or right is None else False


def negated(value: bool | None) -> bool | None:
    return None if value is None else not value


@st.composite
def predicates(draw: st.DrawFn) -> tuple[str, Any]:
    """A predicate as text, and as a function of a row: True, False or None for unknown."""
    name = draw(st.sampled_from(NAMES))
    kind, values, write, _ = COLUMNS[name]
    is_float = isinstance(kind, types.FloatType)
    usable = [v for v in values if not isinstance(v, float) or math.isfinite(v)]
    form = draw(st.sampled_from(["compare"] * 4 + ["in", "not in", "null", "not null", "nan", "like", "not like"]))
    if form == "nan" and isinstance(kind, types.FloatType | types.DoubleType):
        return f"{name} is nan", lambda row, _: row[name] is not None and math.isnan(row[name])
    if form in ("null", "not null") or isinstance(kind, types.BinaryType):  # binary has no literals
        wanted = form == "null"
        return f"{name} is {'null' if wanted else 'not null'}", lambda row, _: (row[name] is None) == wanted
    if form in ("like", "not like") and isinstance(kind, types.StringType):
        prefix = draw(st.sampled_from(usable))
        like = form == "like"
        return (
            f"{name} {form} '{prefix}%'",
            lambda row, _: None if row[name] is None else row[name].startswith(prefix) == like,
        )
    if form in ("in", "not in") and not isinstance(kind, types.BooleanType):
        chosen = draw(st.lists(st.sampled_from(usable), min_size=2, max_size=3, unique=True))

        def among(row: Row, semantics: Semantics) -> bool | None:
            found: bool | None = False
            for value in chosen:
                found = either(found, semantics.compare("=", row[name], value, is_float=is_float))
            return found if form == "in" else negated(found)

        return f"{name} {form} ({', '.join(write(value) for value in chosen)})", among
    operator = draw(st.sampled_from(("=", "!=") if isinstance(kind, types.BooleanType) else ORDERED))
    value = draw(st.sampled_from(usable))
    return f"{name} {operator} {write(value)}", lambda row, semantics: semantics.compare(
        operator, row[name], value, is_float=is_float
    )


def combine(children: st.SearchStrategy[tuple[str, Any]]) -> st.SearchStrategy[tuple[str, Any]]:
    def both(left: tuple[str, Any], right: tuple[str, Any], word: str) -> tuple[str, Any]:
        (text, one), (other_text, two) = left, right
        if word == "or":
            return f"({text} or {other_text})", lambda row, s: either(one(row, s), two(row, s))
        return f"({text} and {other_text})", lambda row, s: negated(either(negated(one(row, s)), negated(two(row, s))))

    def no(child: tuple[str, Any]) -> tuple[str, Any]:
        text, one = child
        return f"(not {text})", lambda row, s: negated(one(row, s))

    return st.builds(both, children, children, st.sampled_from(["and", "or"])) | st.builds(no, children)


FILTERS = st.recursive(predicates(), combine, max_leaves=4)


@st.composite
def specs(draw: st.DrawFn) -> PartitionSpec:
    names = draw(st.lists(st.sampled_from(NAMES), max_size=2, unique=True))
    fields = []
    for i, name in enumerate(names):
        transform = transforms.parse_transform(draw(st.sampled_from(COLUMNS[name][3])))
        fields.append(PartitionField(SCHEMA.find_field(name).field_id, 1000 + i, transform, f"{name}_part"))
    return PartitionSpec(*fields)


def data_files(table: Table, rows: list[Row], chance: random.Random) -> list[tuple[DataFile, list[Row]]]:
    """Entries for the rows, each partition's in one or two files, with honest metrics of differing detail."""
    spec = table.spec()
    apply = [
        (SCHEMA.find_column_name(f.source_id), f.transform.transform(SCHEMA.find_type(f.source_id)))
        for f in spec.fields
    ]
    groups: dict[str, tuple[Record, list[Row]]] = {}
    for row in rows:
        record = Record(*(transform(row[name]) for name, transform in apply))
        groups.setdefault(f"{record}{chance.randrange(2)}", (record, []))[1].append(row)
    found = []
    for key, (record, members) in groups.items():
        name = f"{abs(hash(key))}.parquet"
        fields = metrics_of(members, chance) | {"record_count": len(members), "partition": record}
        found.append((manifests.fake_data_file(table, name, **fields), members))
    return found


def metrics_of(rows: list[Row], chance: random.Random) -> dict[str, dict[int, Any]]:
    names = ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    found: dict[str, dict[int, Any]] = {name: {} for name in names}
    for field in SCHEMA.fields:
        detail = chance.choice(["none", "counts", "full", "full", "truncate"])
        if detail == "none":
            continue
        values = [row[field.name] for row in rows if row[field.name] is not None]
        numbers = [v for v in values if not isinstance(v, float) or not math.isnan(v)]
        found["value_counts"][field.field_id] = len(rows)
        found["null_value_counts"][field.field_id] = len(rows) - len(values)
        if isinstance(field.field_type, types.FloatType | types.DoubleType) and chance.random() < 0.7:
            found["nan_value_counts"][field.field_id] = len(values) - len(numbers)
        if numbers and detail != "counts":
            lower, upper = bounds(field, numbers, truncated=detail == "truncate", old=chance.random() < 0.5)
            found["lower_bounds"][field.field_id] = lower
            if upper is not None:
                found["upper_bounds"][field.field_id] = upper
    return found


def bounds(field: types.NestedField, values: list[Any], *, truncated: bool, old: bool) -> tuple[bytes, bytes | None]:
    low, high = min(values), max(values)
    kind = field.field_type
    if isinstance(kind, types.LongType) and old and -(2**31) <= low <= high < 2**31:
        kind = types.IntegerType()  # as written before the column was promoted
    if isinstance(kind, types.DoubleType) and old and all(v != 0.1 for v in values):
        kind = types.FloatType()
    if truncated and isinstance(kind, types.StringType):
        upper = truncate_upper_bound_text_string(high, 1)
        return low[:1].encode(), None if upper is None else upper.encode()
    if truncated and isinstance(kind, types.BinaryType):
        return low[:1], truncate_upper_bound_binary_string(high, 1)
    return to_bytes(kind, low), to_bytes(kind, high)


def exclusions(chance: random.Random) -> list[tuple[str, Any]]:
    """A filter for each column that excludes one or two values, written in one of several ways."""
    found = []
    for name, (kind, values, write, _) in COLUMNS.items():
        usable = [v for v in values if not isinstance(v, float) or math.isfinite(v)]
        chosen = chance.sample(usable, 2)
        text, count = chance.choice([("{n} <> {v}", 1), ("not ({n} = {v})", 1), ("{n} not in ({v}, {w})", 2)])
        if isinstance(kind, types.BinaryType) or (count == 2 and isinstance(kind, types.BooleanType)):
            continue

        def truth(
            row: Row, way: Semantics, name: str = name, chosen: list[Any] = chosen[:count], kind: Any = kind
        ) -> Any:
            is_float = isinstance(kind, types.FloatType)
            equal = [way.compare("=", row[name], value, is_float=is_float) for value in chosen]
            return None if None in equal else not any(equal)

        found.append((text.format(n=name, v=write(chosen[0]), w=write(chosen[1])), truth))
    return found


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lakes.Lake]:
    lake = lakes.file_lake(tmp_path_factory.mktemp("filter"))
    yield lake
    lakes.close(lake)


@dataclass
class Tally:
    files: int = 0
    left_out: int = 0
    by_exclusion: int = 0  # left out because a filter excludes all that the file has


def check(lake: lakes.Lake, spec: PartitionSpec, filters: list[tuple[str, Any]], seed: int, tally: Tally) -> None:
    chance = random.Random(seed)
    # In half of the columns all rows say the same, but for nulls: then what a filter excludes may be all that there is.
    usual = {name: [chance.choice(COLUMNS[name][1])] if chance.random() < 0.5 else COLUMNS[name][1] for name in NAMES}
    nulls = {name: chance.choice([0, 0.15]) for name in NAMES}
    rows = [
        {name: None if chance.random() < nulls[name] else chance.choice(usual[name]) for name in NAMES}
        for _ in range(12)
    ]
    table = lakes.make_table(lake.catalog, lake.name(f"t{uuid.uuid4().hex}"), SCHEMA, spec=spec)
    written = data_files(table, rows, chance)
    table = manifests.add_files(table, [file for file, _ in written])
    found = live_files.live_files(
        table, snapshot_manifests.read(table.io, table.current_snapshot()), metrics=list(range(1, len(NAMES) + 1))
    )
    members_of = {file.file_path: members for file, members in written}

    excluding = exclusions(chance)
    for text, truth in [*filters, *excluding]:
        mask = where_clause.parse(text, table.schema()).select(found, table.specs())
        for path, kept in zip(found["file_path"].to_pylist(), mask.to_pylist(), strict=True):
            tally.files += 1
            if not kept:
                tally.left_out += 1
                tally.by_exclusion += (text, truth) in excluding
                matching = [row for row in members_of[path] if any(truth(row, way) for way in ALL_SEMANTICS)]
                assert not matching, f"{text} with {table.spec()} misses {matching}"


def test_no_file_with_a_matching_row_is_left_out(lake: lakes.Lake) -> None:
    """R47."""
    tally = Tally()

    @examples(40, phases=(Phase.generate, Phase.shrink))
    @given(spec=specs(), filters=st.lists(FILTERS, min_size=12, max_size=12), seed=st.integers(0, 2**20))
    def property_holds(spec: PartitionSpec, filters: list[tuple[str, Any]], seed: int) -> None:
        check(lake, spec, filters, seed, tally)

    property_holds()
    assert tally.left_out > 0.15 * tally.files > 100, "a filter that keeps all files proves nothing"
    assert tally.by_exclusion > 50


@pytest.fixture(scope="module")
def events(lake: lakes.Lake) -> Table:
    """Three files by day; ids 0 to 9, 10 to 19 and 20 to 29."""
    schema = Schema(
        types.NestedField(1, "id", types.LongType(), required=True),
        types.NestedField(2, "Day", types.DateType(), required=False),
        types.NestedField(
            3,
            "place",
            types.StructType(types.NestedField(4, "name", types.StringType(), required=True)),
            required=False,
        ),
        types.NestedField(5, "at", types.TimestamptzType(), required=False),
        types.NestedField(6, "price", types.DecimalType(9, 2), required=False),
    )
    spec = PartitionSpec(PartitionField(2, 1000, transforms.IdentityTransform(), "Day"))
    table = lakes.make_table(lake.catalog, lake.name("events"), schema, spec=spec)
    for number in range(3):
        columns = {
            "id": range(number * 10, number * 10 + 10),
            "Day": [datetime.date(2026, 1, 1 + number)] * 10,
            "place": [{"name": "a"}] * 9 + [None],
            "at": [None] * 10,
            "price": [Decimal("1.50")] * 10,
        }
        table.append(pa.table(columns, schema=table.schema().as_arrow()))
    return table


def days(table: Table, where: str) -> list[int]:
    """The days of January whose file the filter keeps."""
    found = look.look(table, name="db.events", where=where).view
    kept = found.files.filter(found.selected)["partition"].to_pylist()
    return sorted(int(text[len('{"Day":"2026-01-') : -2]) for text in kept)


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("id >= 10 and id < 20", [2]),
        ("id between 5 and 12", [1, 2]),
        ("not (id < 20)", [3]),
        ("id in (3, 25)", [1, 3]),
        ("id = 1e1", [2]),
        ("id > 9.0 and id < 11.00", [2]),
        ("id > '9' and id < 11", [2]),
        ("ID = 5 or day = '2026-01-03'", [1, 3]),  # whatever the case
        ("Day != '2026-01-02'", [1, 3]),
        ("id is null", []),
        ("price = 1.5", [1, 2, 3]),
        ("price > 1.5", []),
        ("at is not null", []),
        ("place.name = 'a'", [1, 2, 3]),
        ("place.name is null", [1, 2, 3]),  # required, but in a struct that is null once
        ("id > 99999999999999999999", []),
        ("id not in (5, 99999999999999999999)", [1, 2, 3]),
        ("price <> 1.5", []),  # no other price is stored
        ("price not in (2.0, 1.5)", []),
        ("not (price = 1.5 and id < 10)", [2, 3]),
        ("not (price = 1.5 or id = 3)", []),
        ("not (price <> 1.5)", [1, 2, 3]),
        ("id <> 5", [1, 2, 3]),
        ("at <> '2026-01-01T00:00:00+00:00'", []),
        ("day < '10000-01-01'", [1, 2, 3]),  # as Iceberg has it, and Python has not
        ("day > '5881580-07-11' or day < '-5877641-06-23'", []),
        ("day >= '0000-01-01' and at < '-100-01-01 00:00:00+00:00'", []),
        ("day < 3000000", [1, 2, 3]),
        ("true", [1, 2, 3]),
        ("false", []),
    ],
)
def test_files_are_left_out_by_partition_and_bounds(events: Table, where: str, kept: list[int] | None) -> None:
    if kept is None:
        with pytest.raises(errors.ConfigError):
            days(events, where)
    else:
        assert days(events, where) == kept


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("idd = 5", "there is no column idd; there is id"),
        ("place.nam = 'a'", r"there is no column place\.nam; there are place\.name, place\."),
        ("id =", "cannot be read"),
        ("place.name like '%a%'", "cannot be read"),
        ("id like '%a%'", "LIKE compares texts only"),
        ("id = 'x'", "does not fit column id of type long: 'x' is not a number"),
        ("id > 2.5", "2.5 is not exact in it"),
        ("price = 1.555", "1.555 is not exact in it"),
        ("price = 'NaN'", "does not fit column price"),
        ("day = '2026-13-01'", "does not fit column Day of type date"),
        ("day = '12026-13-01'", "does not fit column Day of type date"),
        ("day = '5881580-07-12'", "'5881580-07-12' is out of its range"),
        ("place = 'a'", "does not fit column place"),
    ],
)
def test_a_filter_that_cannot_be_applied_says_why(events: Table, where: str, message: str) -> None:
    with pytest.raises(errors.ConfigError, match=message) as caught:
        look.look(events, name="db.events", where=where)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("where", "bounds_of", "counts", "kept"),
    [
        ("l <> 5", (b"\5\0\0\0\0\0\0\0", b"\5\0\0\0\0\0\0\0"), (0, None), False),
        ("l <> 5", (b"\5\0\0\0", b"\5\0\0\0"), (0, None), False),  # written before the column became a long
        ("l <> 5", (b"\5\0\0", b"\5\0\0"), (0, None), True),
        ("l <> 5", (b"\5\0\0\0", b"\6\0\0\0"), (0, None), True),
        ("l <> 5", (b"\5\0\0\0", None), (0, None), True),
        ("d <> 2.5", (struct.pack("<d", 2.5), struct.pack("<d", 2.5)), (0, 0), False),
        ("d <> 2.5", (struct.pack("<d", 2.5), struct.pack("<d", 2.5)), (0, 1), True),  # NaN is another number
        ("d <> 2.5", (struct.pack("<d", 2.5), struct.pack("<d", 2.5)), (0, None), True),
        ("d not in (0.0, 1.5)", (struct.pack("<d", 0), struct.pack("<d", 0)), (0, 0), True),  # may be -0.0
        ("f <> 2.5", (struct.pack("<f", 2.5), struct.pack("<f", 2.5)), (0, 0), False),
        ("f <> 0.1", (struct.pack("<f", 0.1), struct.pack("<f", 0.1)), (0, 0), True),  # not 0.1 in double precision
        ("f <> '1e99'", (struct.pack("<f", types.FloatType.max),) * 2, (0, 0), True),
        ("s <> 'a'", (b"a", b"a"), (0, None), False),
        ("s <> 'a'", (b"a", b"a"), (1, None), True),  # for the null, as in Iceberg Java
        ("s not in ('a', 'b')", (b"a", b"a"), (None, None), True),  # it may have one
        ("s <> 'a'", (b"a", b"b"), (0, None), True),  # as when cut
        ("s not like 'ab%'", (b"ab", b"abz"), (0, None), False),
        ("s not like 'ab%'", (b"ab", b"abz"), (1, None), True),  # for the null, as in Iceberg Java
        ("s not like 'ab%'", (b"ab", b"ac"), (0, None), True),
        ("s not like 'ab%'", (b"a", b"ab"), (0, None), True),
        ("s not like 'ab%'", (None, b"ab"), (0, None), True),
    ],
)
def test_a_file_of_one_value_only_is_left_out_where_that_is_excluded(
    lake: lakes.Lake,
    where: str,
    bounds_of: tuple[bytes | None, bytes | None],
    counts: tuple[int | None, int | None],
    kept: bool,
) -> None:
    table = lakes.make_table(lake.catalog, lake.name(f"t{uuid.uuid4().hex}"), SCHEMA)
    field_id = SCHEMA.find_field(where[0]).field_id
    values = (4, *counts, *bounds_of)  # of nulls and of NaN
    names = ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    told = {name: {} if value is None else {field_id: value} for name, value in zip(names, values, strict=True)}
    manifests.add_files(table, [manifests.fake_data_file(table, "0.parquet", record_count=4, **told)])

    found = live_files.live_files(
        table, snapshot_manifests.read(table.io, table.refresh().current_snapshot()), metrics=[field_id]
    )
    assert where_clause.parse(where, SCHEMA).select(found, table.specs()).to_pylist() == [kept]


def test_columns_that_differ_in_case_only_need_their_exact_name() -> None:
    schema = Schema(
        types.NestedField(1, "a", types.LongType(), required=False),
        types.NestedField(2, "A", types.LongType(), required=False),
        types.NestedField(3, "bB", types.LongType(), required=False),
        types.NestedField(4, "Bb", types.LongType(), required=False),
    )

    assert where_clause.parse("A = 1", schema).field_ids == (2,)
    with pytest.raises(errors.ConfigError, match="more than one column is named bb; there are bB, Bb"):
        where_clause.parse("bb = 1", schema)


def test_delete_files_are_judged_by_partition_only(lake: lakes.Lake) -> None:
    table = lakes.make_table(lake.catalog, lake.name("deletes"))
    lakes.append_small_files(table, 1)
    path = next(iter(table.scan().plan_files())).file.file_path
    table = manifests.add_position_delete(table, {path: [0]})

    found = look.look(table, name="db.deletes", where="id > 1000").view

    assert dict(zip(found.files["content"].to_pylist(), found.selected.to_pylist(), strict=True)) == {0: False, 1: True}


def test_a_time_before_1970_may_be_one_unit_late(lake: lakes.Lake) -> None:
    """Writers of old put the last hour of 1969 into 1970's first day."""
    schema = Schema(types.NestedField(1, "at", types.TimestampType(), required=False))
    spec = PartitionSpec(PartitionField(1, 1000, transforms.DayTransform(), "day"))
    table = lakes.make_table(lake.catalog, lake.name("old"), schema, spec=spec)
    files = [manifests.fake_data_file(table, f"{day}.parquet", partition=Record(day)) for day in (-1, 0, 1)]
    table = manifests.add_files(table, files)

    found = look.look(table, name="db.old", where="at = '1969-12-31 23:00:00'").view

    assert [path[-9:] for path in found.files.filter(found.selected)["file_path"].to_pylist()] == [
        "1.parquet",
        "0.parquet",
    ]


@pytest.mark.parametrize(("kind", "bits"), [(types.IntegerType(), 32), (types.LongType(), 64)], ids=str)
def test_the_least_numbers_may_be_cut_off_to_the_greatest(
    lake: lakes.Lake, kind: types.PrimitiveType, bits: int
) -> None:
    """Java's arithmetic has an end there, and its tables have such partitions."""
    spec = PartitionSpec(PartitionField(1, 1000, transforms.TruncateTransform(10), "cut"))
    schema = Schema(types.NestedField(1, "n", kind))
    table = lakes.make_table(lake.catalog, lake.name(f"cut_{bits}"), schema, spec=spec)
    wrapped = 2 ** (bits - 1) - 2  # of the least number there is, less two
    table = manifests.add_files(
        table,
        [manifests.fake_data_file(table, str(cut), partition=Record(cut)) for cut in (wrapped, 2 ** (bits - 1) - 18)],
    )
    found = where_clause.parse("n < 0", table.schema())
    rows = live_files.live_files(
        table, snapshot_manifests.read(table.io, table.current_snapshot()), metrics=found.field_ids
    )
    assert found.select(rows, table.specs()).to_pylist() == [True, False]


@pytest.mark.parametrize(
    "transform", [transforms.YearTransform(), transforms.MonthTransform(), transforms.DayTransform()]
)
@pytest.mark.parametrize(
    ("where", "kept"), [("day > '9999-12-31'", 0), ("day < '10000-01-01'", 1), ("day >= 3000000", 0)]
)
def test_the_end_of_pythons_calendar_is_none_for_filters(
    lake: lakes.Lake, transform: transforms.Transform[Any, Any], where: str, kept: int
) -> None:
    """R55."""
    schema = Schema(types.NestedField(1, "day", types.DateType(), required=False))
    name = lake.name(f"far_{transform}")
    if not lake.catalog.table_exists(name):
        table = lakes.make_table(
            lake.catalog, name, schema, spec=PartitionSpec(PartitionField(1, 1000, transform, "part"))
        )
        table.append(pa.table({"day": [datetime.date(2026, 1, 1)]}))
    found = look.look(lake.catalog.load_table(name), name=name, where=where).view
    assert found.files.filter(found.selected).num_rows == kept

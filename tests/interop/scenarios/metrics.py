"""Metrics by the table's own settings are those that Java has for the same rows."""

from __future__ import annotations

from typing import Any

from tests.factories import java_metrics
from tests.interop.scenarios.scene import Play, Scenario, Scene, scenario

_MODE = "write.metadata.metrics.default"
_COLUMN = "write.metadata.metrics.column."
_COLUMNS = "id bigint, v string, d double, s struct<a:int,b:string>, l array<string>, m map<string,int>"
_TEXTS = [
    "a" * 20, "b" * 15 + "\U0001f600" * 3, "\u00e9" * 17, "\ud7ff" * 17, "\U0010ffff" * 3 + "a" * 20, "", "\x7f" * 17,
    "\u07ff" * 20, "\uffff" * 20,
]  # fmt: skip


def _rows(texts: list[str]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [
        {"id": n, "v": text, "d": n / 2, "s": {"a": n, "b": text}, "l": [text], "m": [(text, n)]}
        for n, text in enumerate(texts)
    ]
    return [*made, {"id": 50, "d": float("nan")}, {}]


def _mode(name: str, **properties: str) -> Scenario:
    @scenario(f"R41_metrics_{name}", columns=_COLUMNS, properties=properties)
    def play(scene: Scene) -> Play:
        scene.append(_rows(_TEXTS), _rows(["m" * 30]))
        yield
        found = java_metrics.check(scene.table)
        assert bool(found["valueCounts"]) == (name != "none")

    return play


_MODES = {
    "none": {_MODE: "none"},
    "counts": {_MODE: "counts"},
    "truncate_1": {_MODE: "truncate(1)"},
    "truncate_3": {_MODE: "truncate(3)"},
    "truncate_16": {_MODE: "truncate(16)"},
    "truncate_17": {_MODE: "truncate(17)"},
    "full": {_MODE: "full"},
    "by_column": {_MODE: "counts", f"{_COLUMN}v": "truncate(2)", f"{_COLUMN}d": "none", f"{_COLUMN}s.b": "full"},
    "of_lists_and_maps": {f"{_COLUMN}l.element": "full", f"{_COLUMN}m.key": "full", f"{_COLUMN}m.value": "full"},
    "that_java_would_not_understand": {_MODE: "truncate(many)", f"{_COLUMN}v": "everything"},
}


def _one_text(number: int) -> Scenario:
    """Each text alone, so that its own truncation is both bounds."""
    text = _TEXTS[number]

    @scenario(f"R41_truncated_text_{number}", columns="id bigint, v string", properties={_MODE: "truncate(16)"})
    def play(scene: Scene) -> Play:
        scene.append([{"id": 1, "v": text}], [{"id": 2, "v": text}])
        yield
        java_metrics.check(scene.table)

    return play


_MANY = ", ".join(f"c{n} int" for n in range(105))


def _many(name: str, **properties: str) -> Scenario:
    @scenario(f"R41_more_than_a_hundred_columns_{name}", properties=properties,
              columns=f"s struct<x:int,y:struct<z:int>>, {_MANY}")  # fmt: skip
    def play(scene: Scene) -> Play:
        row = {f"c{n}": n for n in range(105)} | {"s": {"x": 1, "y": {"z": 2}}}
        scene.append([row], [row])
        yield
        java_metrics.check(scene.table)

    return play


def _promoted(mode: str) -> Scenario:
    """Columns that the table is sorted by have bounds, whatever the default."""

    name = mode.replace("(", "_").rstrip(")")

    @scenario(f"R41_sort_columns_promoted_from_{name}", columns=_COLUMNS, properties={_MODE: mode})
    def play(scene: Scene) -> Play:
        scene.sql("alter table {t} write locally ordered by v, s.a")
        scene.append(_rows(_TEXTS[:3]), _rows(["m" * 30]))
        yield
        assert java_metrics.check(scene.table)["lowerBounds"]

    return play


@scenario(
    "R41_sort_column_with_a_mode_of_its_own", columns=_COLUMNS, properties={_MODE: "none", f"{_COLUMN}v": "counts"}
)
def own_mode(scene: Scene) -> Play:
    scene.sql("alter table {t} write locally ordered by v, id")
    scene.append(_rows(_TEXTS[:3]), _rows(["m" * 30]))
    yield
    java_metrics.check(scene.table)


@scenario("R41_mode_of_a_renamed_column", columns=_COLUMNS, properties={f"{_COLUMN}v": "full"})
def renamed(scene: Scene) -> Play:
    scene.append(_rows(_TEXTS))
    scene.evolve(lambda update: update.renameColumn("v", "w"))
    scene.append([{"id": 1, "w": "z" * 30}])
    yield
    java_metrics.check(scene.table)


@scenario("R40_metrics_over_several_row_groups", columns=_COLUMNS,
          properties={"write.parquet.row-group-size-bytes": "2000"})  # fmt: skip
def row_groups(scene: Scene) -> Play:
    for start in range(0, 3000, 1000):
        scene.append([{"id": n, "v": f"{n * 7919 % 3000:020}", "d": n / 3} for n in range(start, start + 1000)])
    yield
    java_metrics.check(scene.table)


@scenario("R40_texts_longer_than_footers_hold", columns="id bigint, v string", properties={_MODE: "truncate(8)"})
def long_texts(scene: Scene) -> Play:
    """Java's footers have no bounds of such texts, so it has none; ours may, if they are right."""
    scene.append([{"id": 1, "v": "a" * 9000}], [{"id": 2, "v": "b" * 9000}])
    yield
    (file,) = java_metrics.written(scene.table)
    found = java_metrics.of(scene.table, file)
    assert found["lowerBounds"].get(2, b"a" * 8) == b"a" * 8
    assert found["upperBounds"].get(2, b"b" * 7 + b"c") == b"b" * 7 + b"c"


@scenario("R40_deleted_rows_count_no_more", columns=_COLUMNS)
def after_deletes(scene: Scene) -> Play:
    scene.append(_rows(_TEXTS), _rows(["m" * 30]))
    scene.delete([{"id": 0}, {"id": None}, {"id": 50}])
    yield
    java_metrics.check(scene.table)


SCENARIOS = [
    *(_mode(name, **properties) for name, properties in _MODES.items()), *map(_one_text, range(len(_TEXTS))),
    _many("by_default"), _many("with_a_default", **{_MODE: "counts"}),
    _many("with_a_lower_limit", **{"write.metadata.metrics.max-inferred-column-defaults": "3"}),
    _many("with_a_column_beyond_it", **{f"{_COLUMN}c104": "full"}),
    *map(_promoted, ("none", "counts", "truncate(3)")), own_mode, renamed, row_groups, long_texts, after_deletes,
]  # fmt: skip

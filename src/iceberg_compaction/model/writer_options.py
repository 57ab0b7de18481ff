"""Parameters of the writer for one run, by the names of Iceberg's table properties, which they override. Texts such as
`write.parquet.compression-codec=zstd` come in; one that no file could get, or that has an option of its own, is refused
with the reason. Likewise entries of one's own in the summaries of the run's snapshots."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

CODEC: Final = "write.parquet.compression-codec"
LEVEL: Final = "write.parquet.compression-level"
CODECS: Final = ("zstd", "gzip", "snappy", "lz4", "lz4_raw", "brotli", "uncompressed", "none")
_FORMAT = "write.format.default"
_PARQUET, _METRICS = "write.parquet.", "write.metadata.metrics."
_NUMBERS = tuple(
    _PARQUET + name
    for name in (
        "row-group-size-bytes",
        "page-size-bytes",
        "page-row-limit",
        "dict-size-bytes",
        "bloom-filter-max-bytes",
    )
)
_COLUMN_FLAGS = tuple(
    f"{_PARQUET}{name}.column." for name in ("dict-encoding-enabled", "stats-enabled", "bloom-filter-enabled")
)
_COLUMN_CHANCE, _COLUMN_NUMBER = f"{_PARQUET}bloom-filter-fpp.column.", f"{_PARQUET}bloom-filter-ndv.column."
_COLUMN_METRICS, _METRICS_DEFAULT = f"{_METRICS}column.", f"{_METRICS}default"
_INFERRED = f"{_METRICS}max-inferred-column-defaults"
COLUMN_PREFIXES: Final = (*_COLUMN_FLAGS, _COLUMN_CHANCE, _COLUMN_NUMBER, _COLUMN_METRICS)
_VERSION = f"{_PARQUET}page-version"
# What has an option of its own, or is no matter of a single run.
_ELSEWHERE = {
    "write.target-file-size-bytes": "give target-file-size-bytes instead",
    "write.data.path": "new files go where the table says",
    "write.metadata.path": "new files go where the table says",
    "write.object-storage.enabled": "new files go where the table says",
    "write.distribution-mode": "rewrites need no shuffle",
    "write.sort-order": "give the strategy sort and sort-order instead",
    "write.delete.granularity": "it is about delete files; see `iceberg-compact deletes --granularity`",
    "write.spark.fanout.enabled": "it is about writers of Spark",
    "write.parquet.row-group-check-min-record-count": "row groups have the size that row-group-size-bytes says",
    "write.parquet.row-group-check-max-record-count": "row groups have the size that row-group-size-bytes says",
}
_LARGEST = 2**63 - 1
Rule: TypeAlias = Callable[[str, str], None]  # ValueError: a value cannot be used


def parse(given: object) -> tuple[str, ...]:
    """The options in one form: `name=value`, sorted, each name once. ValueError: one of them cannot be used."""
    options = pairs(given, comma=True)
    for name, value in options.items():
        check(name, value)
    return tuple(f"{name}={value}" for name, value in sorted(options.items()))


def pairs(given: object, *, comma: bool = False) -> dict[str, str]:
    """A mapping, or texts such as `a=1`, as a mapping. `comma`: one text may hold several."""
    if isinstance(given, Mapping):
        return {str(name).strip(): _text(value) for name, value in given.items()}
    texts = (given.split(",") if comma else [given]) if isinstance(given, str) else given
    if not isinstance(texts, Iterable):
        raise ValueError("it must be NAME=VALUE, once or several times")
    entries: dict[str, str] = {}
    for text in texts:
        name, equals, value = str(text).partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{str(text)[:80]!r} is not NAME=VALUE")
        if entries.get(name.strip(), value.strip()) != value.strip():
            raise ValueError(f"{name.strip()} is given twice, with two values")
        entries[name.strip()] = value.strip()
    return entries


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def check(name: str, value: str) -> None:
    """ValueError: no file that is written could have it, or not this value."""
    if (reason := _ELSEWHERE.get(name)) is not None:
        raise ValueError(f"{name} cannot be set for one run: {reason}")
    rule = _EXACT.get(name) or next((rule for prefix, rule in _BY_COLUMN.items() if name.startswith(prefix)), None)
    if rule is not None:
        rule(name, value)
        return
    names = [*_EXACT, *(f"{prefix}NAME" for prefix in COLUMN_PREFIXES)]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise ValueError(f"{name} is no parameter of the writer{hint}; there are {', '.join(names)}")


def _one_of(*values: str) -> Rule:
    def check(name: str, value: str) -> None:
        if value.lower() not in values:
            raise ValueError(f"{name} is {value[:40]!r}; it can be {', '.join(values)}")

    return check


def _number(least: int) -> Rule:
    words = f" from {least} on" if least >= 0 else ""

    def check(name: str, value: str) -> None:
        digits = value.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20 and least <= int(value) <= _LARGEST):
            raise ValueError(f"{name} is {value[:40]!r}, not a whole number{words}")

    return check


def _chance(name: str, value: str) -> None:
    try:
        usable = 0.0 < float(value) < 1.0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(f"{name} is {value[:40]!r}, not a number between 0 and 1")


def _metrics(name: str, value: str) -> None:
    length = value.lower().removeprefix("truncate(").removesuffix(")")
    is_truncate = value.lower().startswith("truncate(") and length.isdigit() and int(length) > 0
    if value.lower() not in ("none", "counts", "full") and not is_truncate:
        raise ValueError(f"{name} is {value[:40]!r}; it can be none, counts, truncate(N) or full")


def column_of(name: str) -> str | None:
    """The column that an option is about; None: all of them."""
    return next((name.removeprefix(prefix) for prefix in COLUMN_PREFIXES if name.startswith(prefix)), None)


def needs_encoding(options: Iterable[str]) -> bool:
    """Whether nothing may be copied as bytes, because a file does not say whether it was written so. The codec of a row
    group is in its footer, and metrics are not in files at all."""
    return any(name.startswith(_PARQUET) and name != CODEC for name in pairs(options))


_EXACT: Final[dict[str, Rule]] = {
    CODEC: _one_of(*CODECS),
    LEVEL: _number(-_LARGEST),
    **dict.fromkeys(_NUMBERS, _number(1)),
    _VERSION: _one_of("v1", "v2"),
    _METRICS_DEFAULT: _metrics,
    _INFERRED: _number(0),
    _FORMAT: _one_of("parquet"),
}
_BY_COLUMN: Final[dict[str, Rule]] = {
    **dict.fromkeys(_COLUMN_FLAGS, _one_of("true", "false")),
    _COLUMN_CHANCE: _chance,
    _COLUMN_NUMBER: _number(1),
    _COLUMN_METRICS: _metrics,
}

# Beginnings of names that mean something to readers of the table's history.
_OURS: Final = ("compaction.", "engine-name", "engine-version")
_ICEBERG = re.compile(
    r"operation|(added|deleted|removed|total)-.*|changed-partition-count|partition-summaries-included|partitions\..*|"
    r"(manifests-(created|kept|replaced)|entries-processed)|replace-partitions|source-snapshot-id|wap\.id|published-wap-id|"
    r"iceberg-version|spark\.app\.id|app-id"
)
_LONGEST = 1000


def parse_entries(given: object) -> tuple[str, ...]:
    """The entries in one form: `name=value`, sorted, each name once. ValueError: a name is taken."""
    entries = pairs(given)
    for name, value in entries.items():
        if name.startswith(_OURS):
            raise ValueError(f"{name} is written by this program and cannot be set")
        if _ICEBERG.fullmatch(name):
            raise ValueError(f"{name} has a meaning in Iceberg and cannot be set")
        if len(name) > _LONGEST or len(value) > _LONGEST:
            raise ValueError(f"{name[:40]} is longer than {_LONGEST} characters")
    return tuple(f"{name}={value}" for name, value in sorted(entries.items()))

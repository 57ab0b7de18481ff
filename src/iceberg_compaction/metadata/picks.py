"""One value out of every record's map, without decoding the maps. Files of one writer have the same number of bounds in
the same order; then a map is, byte by byte, a record of count, key, value, key, value, …, end, all but one of which can
be skipped. That each map really is of that form is checked with the values; if not, maps are decoded in full."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.metadata import metrics
from iceberg_compaction.metadata.avro import container, decode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Path = Sequence[str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """The value of `key` in the map at `path`; maps are arrays of (key, value), as Iceberg writes them."""

    path: tuple[str, ...]
    key: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """How every map of one field looks, if the first one is a model for all."""

    pick: Pick
    branch: int | None  # which of a union's types it has; None: it is no union
    count: int
    at: int  # where the wanted key stands

    @property
    def checks(self) -> dict[str, int]:
        """What the fields around the value must hold, in every record, for the form to be true."""
        branch = {} if self.branch is None else {"branch": self.branch}
        return {**branch, "count": self.count, f"key_{self.at}": self.pick.key, "end": 0}

    def record(self, name: str) -> dict[str, Any]:
        """The Avro type that reads the same bytes."""
        numbers = [] if self.branch is None else ["branch"]
        fields = [{"name": field, "type": "long"} for field in (*numbers, "count")]
        for at in range(self.count):
            fields += [{"name": f"key_{at}", "type": "int"}, {"name": f"value_{at}", "type": "bytes"}]
        return {"type": "record", "name": name, "fields": [*fields, {"name": "end", "type": "long"}]}


def read(
    parsed: container.Container, select: Mapping[str, Path], picks: Mapping[str, Pick], *, where: str = "Avro file"
) -> pa.Table:
    """As `decode.read`, with a column for each pick: binary, null where a map has no such key."""
    try:
        if forms := _forms(parsed, picks):
            found = _read_as(parsed, select, forms)
            if found is not None:
                return found
    except errors.MetadataError:
        pass  # not of that form, or not readable at all: then it fails below, too
    maps = {name: pick.path for name, pick in picks.items()}
    table = decode.read(parsed, {**select, **maps}, where=where)
    for name, pick in picks.items():
        at = table.schema.get_field_index(name)
        if at >= 0:
            table = table.set_column(at, name, metrics.pick(table[name], pick.key).cast(pa.binary()))
    return table


def _forms(parsed: container.Container, picks: Mapping[str, Pick]) -> dict[str, _Form] | None:
    """The forms of the first record's maps; None: they have none."""
    if not picks or not parsed.rows:
        return None
    first = np.arange(len(parsed.counts)) == 0
    sample = decode.read(container.only(parsed, first), {name: pick.path for name, pick in picks.items()})
    forms = {}
    for name, pick in picks.items():
        branch = _branch(_field(parsed.schema, pick.path))
        pairs = sample[name][0].as_py() if name in sample.column_names else None
        keys = [pair["key"] for pair in pairs or ()]
        if branch is False or pick.key not in keys:
            return None
        forms[name] = _Form(pick=pick, branch=branch, count=len(keys), at=keys.index(pick.key))
    return forms


def _read_as(parsed: container.Container, select: Mapping[str, Path], forms: Mapping[str, _Form]) -> pa.Table | None:
    schema = parsed.schema
    wanted = dict(select)
    for number, (name, form) in enumerate(forms.items()):
        _field(schema, form.pick.path)["type"] = form.record(f"unrolled_{number}")
        wanted[name] = (*form.pick.path, f"value_{form.at}")
        wanted |= {f"{name}.{check}": (*form.pick.path, check) for check in form.checks}
    metadata = {**parsed.metadata, container.SCHEMA: json.dumps(schema).encode()}
    table = decode.read(dataclasses.replace(parsed, metadata=metadata), wanted)
    # Record by record: what stands before a map was read rightly, so its count is what the file says. If that is the
    # expected one, so is the map, and what stands after it is read rightly, too.
    for name, form in forms.items():
        for check, value in form.checks.items():
            if not pc.all(pc.equal(table[f"{name}.{check}"], value)).as_py():
                return None
    return table.select([*(name for name in select if name in table.column_names), *forms])


def _field(schema: dict[str, Any], path: Path) -> dict[str, Any]:
    """The field at the end of a path of records; empty if there is none."""
    field: dict[str, Any] = {"type": schema}
    for name in path:
        kind = field["type"]
        fields = kind.get("fields", ()) if isinstance(kind, dict) else ()
        field = next((field for field in fields if field["name"] == name), {"type": None})
    return field


def _branch(field: dict[str, Any]) -> int | bool | None:
    """Which branch of a union an array of int keys and bytes is, None if there is no union; False: it is none."""
    union = field["type"] if isinstance(field["type"], list) else None
    for number, kind in enumerate(union or [field["type"]]):
        items = kind.get("items") if isinstance(kind, dict) and kind.get("type") == "array" else None
        if isinstance(items, dict) and [field["type"] for field in items.get("fields", ())] == ["int", "bytes"]:
            return number if union else None
    return False

"""Values of one key out of maps. Iceberg writes a map as an array of pairs of key and value, as Avro has no keys but
texts: an entry of a manifest holds a hundred pairs, of which a query needs two. Most writers give all maps of a file
the same keys in the same order. Then a schema can spell the pairs out as fields, and a reader skips the fields
that are not needed instead of building them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Kind = Any  # an Avro schema as JSON has it

MOST = 250  # pairs that are spelt out; a schema of thousands of fields costs more than it saves
_TOO_LONG = 2**31 - 1  # bytes: longer than any block, so that reading as much always fails


def pick(maps: pa.ChunkedArray, key: int) -> pa.Array:
    """The value of one key in each row's list of pairs; null if the list lacks the key."""
    # Chunk by chunk: to join them first would copy the pairs of all keys.
    picked = [_pick(chunk, key) for chunk in maps.chunks]
    return picked[0] if len(picked) == 1 else pa.chunked_array(picked, maps.type.value_type[1].type).combine_chunks()


def _pick(lists: pa.ListArray, key: int) -> pa.Array:
    pairs = lists.values
    hits = np.flatnonzero(pairs.field("key").to_numpy() == key)
    ends = lists.offsets.to_numpy()
    hits = hits[(hits >= ends[0]) & (hits < ends[-1])]  # beyond lie pairs of rows that a slice left out
    positions = np.full(len(lists), -1, np.int64)
    positions[np.searchsorted(ends, hits, side="right") - 1] = hits
    null = positions < 0
    if lists.null_count:
        null |= lists.is_null().to_numpy(zero_copy_only=False)
    return pairs.field("value").take(pa.array(positions, mask=null))


def shared_keys(maps: pa.ChunkedArray) -> list[int]:
    """The keys of every map, in order, if all have the same ones and each once; else none."""
    lists = maps.combine_chunks()
    sizes = np.diff(lists.offsets.to_numpy())
    if not len(lists) or lists.null_count or not 0 < sizes[0] <= MOST or (sizes != sizes[0]).any():
        return []
    keys = lists.flatten().field("key").to_numpy().reshape(len(lists), -1)
    return keys[0].tolist() if (keys == keys[0]).all() and len(np.unique(keys[0])) == len(keys[0]) else []


def is_map(kind: Kind) -> bool:
    """Whether a type is an array of pairs of plain values, or that or null."""
    arrays = [_pair(branch) for branch in (kind if isinstance(kind, list) else [kind]) if branch != "null"]
    return len(arrays) == 1 and [name for name, _ in arrays[0]] == ["key", "value"]


def spelt_out(kind: Kind, keys: Sequence[int], name: str) -> Iterator[tuple[tuple[int | str, ...], Kind]]:
    """The types, in order, of the bytes of such a map with these keys, each with its path: (key,) is a value and
    (key, "key") its key. A map with another number of pairs always fails to be read by them, so the fields that follow
    are read from the right byte. `name` is part of the names of new types."""
    branches = kind if isinstance(kind, list) else [kind]
    branch = next(number for number, inner in enumerate(branches) if inner != "null")
    if isinstance(kind, list):
        yield ("branch",), _only(branch, len(branches), f"{name}_branch")
    yield ("count",), _only(len(keys), len(keys) + 1, f"{name}_count")
    (_, key_kind), (_, value_kind) = _pair(branches[branch])
    for key in keys:
        yield (key, "key"), key_kind
        yield (key,), value_kind
    yield ("end",), _only(0, 1, f"{name}_end")  # an array ends with a part of no items


def _pair(array: Kind) -> list[tuple[str, Kind]]:
    """Names and types of the fields of an array's items, if all are plain."""
    items = array.get("items") if isinstance(array, dict) and array.get("type") == "array" else None
    fields = items.get("fields", []) if isinstance(items, dict) else []
    return [(field["name"], field["type"]) for field in fields if isinstance(field["type"], str)]


def _only(number: int, count: int, name: str) -> Kind:
    """A type that reads one number and fails at every other: a union has its branch's number before the value. That
    branch has no bytes, the others below `count` more than there can be, and further ones do not exist."""
    walls = [{"type": "fixed", "name": f"{name}_{other}", "size": _TOO_LONG} for other in range(count)]
    return [*walls[:number], "null", *walls[number + 1 :]]

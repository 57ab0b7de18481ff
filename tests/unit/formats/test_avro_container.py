"""Avro container files: what is composed is parsed again, and damage of any kind is an error with the file's name."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from iceberg_compaction import errors
from iceberg_compaction.formats.avro import avro_decode, avro_encode, container

SYNC = bytes(range(16))
SCHEMA = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "id", "type": "long"},
        {
            "name": "inner",
            "type": {"type": "record", "name": "r", "fields": [{"name": "s", "type": ["null", "string"]}]},
        },
        {"name": "nothing", "type": {"type": "record", "name": "e", "fields": []}},
    ],
}
ROWS = pa.table({"id": list(range(5000)), "inner": [{"s": None if i % 3 else f"text {i}"} for i in range(5000)]})


def compose(codec: str, table: pa.Table = ROWS, blocks: int = 1) -> bytes:
    metadata = {container.SCHEMA: json.dumps(SCHEMA).encode(), container.CODEC: codec.encode(), "mine": b"\x00\xff"}
    size = -(-table.num_rows // blocks)
    parts = [
        block
        for first in range(0, table.num_rows, size or 1)
        for block in avro_encode.blocks(SCHEMA, table.slice(first, size), codec, SYNC)
    ]
    return container.header(metadata, SYNC) + b"".join(parts)


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
def test_what_is_composed_is_read_again(codec: str) -> None:
    data = compose(codec)
    parsed = container.parse(data)
    assert (parsed.codec, parsed.metadata["mine"], parsed.rows) == (codec, b"\x00\xff", ROWS.num_rows)
    assert avro_decode.read_table(data).to_pylist() == ROWS.to_pylist()


def test_select_projects_nested_fields_and_leaves_out_what_the_file_does_not_have() -> None:
    table = avro_decode.read_table(compose("null"), {"text": ("inner", "s"), "none": ("inner", "x"), "id": ("id",)})
    assert table.column_names == ["text", "id"]
    assert table["text"].to_pylist() == [row["s"] for row in ROWS["inner"].to_pylist()]


def test_a_file_without_blocks_has_columns_but_no_rows() -> None:
    table = avro_decode.read_table(compose("deflate", ROWS.slice(0, 0)))
    assert table.num_rows == 0
    assert table.column_names == ["id", "inner"]


def test_only_keeps_the_chosen_blocks() -> None:
    parsed = container.parse(compose("deflate", ROWS.slice(0, 100), blocks=4))
    kept = container.only(parsed, np.array([True, False, False, True]))
    assert avro_decode.read(kept)["id"].to_pylist() == [*range(25), *range(75, 100)]
    assert avro_decode.read(container.only(parsed, np.zeros(4, np.bool_))).num_rows == 0


def test_a_header_map_may_come_in_blocks_with_their_size() -> None:
    parsed = container.parse(compose("null", ROWS.slice(0, 3)))
    pairs = b"".join(
        container.put_long(len(part)) + part for key, value in parsed.metadata.items() for part in (key.encode(), value)
    )
    sized = container.MAGIC + container.put_long(-3) + container.put_long(len(pairs)) + pairs + b"\0" + SYNC
    assert container.parse(sized + parsed.data[int(parsed.starts[0]) :]).rows == 3


@pytest.mark.parametrize("value", [0, 1, -1, 63, 64, -64, -65, 2**31, -(2**31), 2**63 - 1, -(2**63)])
def test_longs_go_there_and_back(value: int) -> None:
    encoded = container.put_long(value)
    assert container.get_long(encoded, 0) == (value, len(encoded))


def test_every_truncation_is_an_error_or_ends_at_a_block() -> None:
    data = compose("deflate", ROWS.slice(0, 300), blocks=3)
    parsed = container.parse(data)
    borders = {int(parsed.starts[0]), *parsed.ends.tolist()}
    for size in range(len(data)):
        if size in borders:  # the caller knows how many rows there should be
            assert container.parse(data[:size]).rows < parsed.rows
        else:
            with pytest.raises(errors.MetadataError, match="manifest 7 is not a readable Avro"):
                container.parse(data[:size], where="manifest 7")


def test_garbled_bytes_raise_nothing_but_metadata_errors() -> None:
    data = compose("deflate", ROWS.slice(0, 300), blocks=3)
    rng, seen = random.Random(7), 0
    for _ in range(200):
        garbled = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            garbled[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        try:
            avro_decode.read_table(bytes(garbled))
        except errors.MetadataError:
            seen += 1
    assert seen > 100


_ENDLESS = """
from iceberg_compaction import errors
from iceberg_compaction.formats.avro import avro_decode as decode
from iceberg_compaction.formats.avro import container
schema = b'{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}'
sync = b"0123456789abcdef"
decode.PATIENCE_S = 0.5
data = container.header({"avro.schema": schema}, sync) + container.block(1, bytes(2), sync)
try:
    decode.read_table(data, where="Manifest m")
except errors.MetadataError as error:
    print(error)
"""


def test_a_block_that_is_longer_than_its_records_is_damage() -> None:
    """In a process of its own: what decodes it never ends."""
    done = subprocess.run([sys.executable, "-c", _ENDLESS], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == "Manifest m is damaged: decoding it has no end.\n"


def test_codecs_that_we_do_not_write_are_refused() -> None:
    with pytest.raises(errors.UnsupportedError, match="snappy"):
        container.compressor("snappy")

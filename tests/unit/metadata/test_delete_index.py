"""The delete index: equal to the rules taken pair by pair on any small table, and each rule once by hand."""

from __future__ import annotations

from typing import Any

import hypothesis
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform, VoidTransform
from tests.factories import delete_rules as rules
from tests.factories.examples import examples

from iceberg_compaction import errors
from iceberg_compaction.metadata.deletes import delete_index, delete_scopes
from iceberg_compaction.model import table_view

UNPARTITIONED = frozenset({0, 3})
A, B = '{"p": "a"}', '{"p": "b"}'


def table(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows of FILES; what a row does not say is as in most files."""
    usual = {
        "content": 0,
        "file_format": "PARQUET",
        "spec_id": 1,
        "partition": A,
        "record_count": 10,
        "file_size_in_bytes": 100,
        "sequence_number": 1,
        "file_sequence_number": 1,
        "encrypted": False,
    }
    known = [{"file_path": f"f{number}", **usual, **row} for number, row in enumerate(rows)]
    columns = {}
    for field in table_view.FILES:
        values = [row.get(field.name) for row in known]
        if pa.types.is_dictionary(field.type):
            columns[field.name] = pa.array(values, pa.string()).dictionary_encode()
        else:
            columns[field.name] = pa.array(values, field.type)
    return pa.table(columns, schema=table_view.FILES)


def data(seq: int = 1, **more: Any) -> dict[str, Any]:
    return {"sequence_number": seq, **more}


def equality(seq: int, **more: Any) -> dict[str, Any]:
    return {"content": 2, "sequence_number": seq, **more}


def position(seq: int, **more: Any) -> dict[str, Any]:
    return {"content": 1, "sequence_number": seq, **more}


def vector(seq: int, path: str | None, **more: Any) -> dict[str, Any]:
    return {"content": 1, "file_format": "PUFFIN", "sequence_number": seq, "referenced_data_file": path, **more}


def build(rows: list[dict[str, Any]]) -> delete_index.DeleteIndex:
    return delete_index.build(table(rows), unpartitioned_specs=UNPARTITIONED)


PLACES = st.sampled_from([(0, "{}"), (1, A), (1, B), (2, A), (2, '{"p": null}'), (3, '{"p": null}')])


@st.composite
def tables(draw: st.DrawFn) -> list[dict[str, Any]]:
    rows = []
    paths = st.sampled_from([f"f{number}" for number in range(12)] + ["gone"])
    for _ in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from(["data", "data", "data", "equality", "position", "named", "vector"]))
        spec, partition = draw(PLACES)
        row = {
            "spec_id": spec,
            "partition": partition,
            "sequence_number": draw(st.integers(0, 4)),
            "record_count": draw(st.integers(0, 20)),
            "content": {"data": 0, "equality": 2}.get(kind, 1),
        }
        if kind in ("named", "vector"):
            row["referenced_data_file"] = draw(paths)
        if kind == "vector":
            row["file_format"] = "PUFFIN"
        rows.append(row)
    if draw(st.integers(0, 9)):  # most tables are sound: what is for one file lies in its partition
        by_path = {f"f{number}": row for number, row in enumerate(rows)}
        for row in rows:
            if target := by_path.get(row.get("referenced_data_file", "")):
                row["spec_id"], row["partition"] = target["spec_id"], target["partition"]
    return rows


@examples(200)
@hypothesis.given(tables())
def test_index_is_the_rules_pair_by_pair(rows: list[dict[str, Any]]) -> None:
    files = table(rows)
    plain = files.to_pylist()
    if trouble := rules.contradiction(plain, UNPARTITIONED):
        with pytest.raises(errors.MetadataError, match=trouble):
            delete_index.build(files, unpartitioned_specs=UNPARTITIONED)
        return
    index = delete_index.build(files, unpartitioned_specs=UNPARTITIONED)
    data_rows = [row for row, file in enumerate(plain) if file["content"] == rules.DATA]
    delete_rows = [row for row, file in enumerate(plain) if file["content"] != rules.DATA]
    pairs = [
        (left, right)
        for left in data_rows
        for right in delete_rows
        if rules.applies(plain[left], plain[right], plain, UNPARTITIONED)
    ]
    check_data_files(index, plain, data_rows, pairs)
    check_estimates(index, plain, data_rows, pairs)
    check_slices(index, plain, data_rows, pairs)
    check_delete_files(index, plain, delete_rows, pairs)


def check_data_files(index: Any, plain: list[dict[str, Any]], rows: list[int], pairs: list[tuple[int, int]]) -> None:
    found = index.for_data_files(reversed(rows)).to_pylist()
    assert [each["row"] for each in found] == rows[::-1]
    counts = {each.pop("row"): each for each in index.counts_per_data_file().to_pylist()}
    deleted = {each.pop("row"): each for each in index.deleted_rows_per_data_file().to_pylist()}
    assert list(counts) == list(deleted) == rows
    for each in found:
        row = each["row"]
        mine = [right for left, right in pairs if left == row]
        vectors = [right for right in mine if rules.is_vector(plain[right])]
        positions = [right for right in mine if plain[right]["content"] == rules.POSITION and right not in vectors]
        equalities = [right for right in mine if plain[right]["content"] == rules.EQUALITY]
        assert (sorted(each["position"]), sorted(each["equality"])) == (positions, equalities)
        assert each["dv"] == (vectors[0] if vectors else None)
        assert counts[row] == {"position": len(positions), "equality": len(equalities), "dv": len(vectors)}
        own = [right for right in vectors + positions if plain[right]["referenced_data_file"] is not None]
        shared = [right for right in positions if right not in own]
        assert deleted[row] == {
            "known": min(records(plain, own), plain[row]["record_count"]),
            "position_at_most": min(records(plain, shared), plain[row]["record_count"]),
            "equality_keys": records(plain, equalities),
        }


def check_estimates(index: Any, plain: list[dict[str, Any]], rows: list[int], pairs: list[tuple[int, int]]) -> None:
    found = index.figures_per_data_file().to_pylist()
    assert [each["row"] for each in found] == rows
    for each in found:
        row, size = each["row"], plain[each["row"]]["record_count"]
        mine = [right for left, right in pairs if left == row]
        own = [right for right in mine if plain[right]["referenced_data_file"] is not None]
        shared = 0.0
        for delete in set(mine) - set(own):
            reach = records(plain, [left for left, right in pairs if right == delete])
            shared += size * min(1, plain[delete]["record_count"] / reach) if reach else 0
        assert each["delete_files"] == len(mine)
        assert abs(each["deleted_rows"] - min(size, records(plain, own) + shared)) <= 0.5 + 1e-9


def check_slices(index: Any, plain: list[dict[str, Any]], rows: list[int], pairs: list[tuple[int, int]]) -> None:
    """Two slices for each partition."""
    by_place: dict[tuple[int, str], list[int]] = {}
    for row in rows:
        by_place.setdefault((plain[row]["spec_id"], plain[row]["partition"]), []).append(row)
    halves = [half for mine in by_place.values() for half in (mine[: len(mine) // 2], mine[len(mine) // 2 :]) if half]
    starts = np.cumsum([0, *(len(half) for half in halves)])[:-1]
    found = index.for_slices(np.array([row for half in halves for row in half], np.int64), starts).to_pylist()
    assert [sorted(deletes) for deletes in found] == [
        sorted({right for left, right in pairs if left in half}) for half in halves
    ]


def check_delete_files(index: Any, plain: list[dict[str, Any]], rows: list[int], pairs: list[tuple[int, int]]) -> None:
    targets = index.live_targets().to_pylist()
    assert [each["row"] for each in targets] == rows
    in_scope = {
        row: sum(file["content"] == 0 and rules.in_scope(file, plain[row], UNPARTITIONED) for file in plain)
        for row in rows
    }
    for each, listed in zip(targets, index.for_delete_files(rows).to_pylist(), strict=True):
        mine = [left for left, right in pairs if right == each["row"]]
        assert (each["targets"], each["in_scope"]) == (len(mine), in_scope[each["row"]])
        assert (listed["row"], sorted(listed["targets"])) == (each["row"], mine)
    assert index.dangling().to_pylist() == [row for row in rows if not in_scope[row]]


def records(plain: list[dict[str, Any]], rows: list[int]) -> int:
    return sum(plain[row]["record_count"] for row in rows)


def deletes_of(rows: list[dict[str, Any]], row: int) -> set[int]:
    found = build(rows).for_data_files([row]).to_pylist()[0]
    return {*found["position"], *found["equality"], *([] if found["dv"] is None else [found["dv"]])}


@pytest.mark.parametrize(("seq", "applied"), [(1, set()), (2, set()), (3, {1})])
def test_r2_equality_deletes_apply_to_older_data_only(seq: int, applied: set[int]) -> None:
    assert deletes_of([data(2), equality(seq)], 0) == applied


@pytest.mark.parametrize("path", [None, "f0"])
@pytest.mark.parametrize(("seq", "applied"), [(1, set()), (2, {1}), (3, {1})])
def test_r20_position_deletes_apply_to_data_of_the_same_commit_too(
    seq: int, applied: set[int], path: str | None
) -> None:
    assert deletes_of([data(2), position(seq, referenced_data_file=path)], 0) == applied


def test_r18_partition_means_spec_and_tuple() -> None:
    rows = [data(), equality(2), equality(2, partition=B), equality(2, spec_id=2), position(2), position(2, spec_id=2)]
    assert deletes_of(rows, 0) == {1, 4}


def test_r18_a_global_equality_delete_reaches_data_of_every_spec_and_is_not_dangling() -> None:
    """R18: nothing is left in the unpartitioned spec, and the delete must stay all the same."""
    rows = [data(1), data(1, spec_id=2, partition=B), equality(2, spec_id=0, partition="{}"), data(2)]
    index = build(rows)
    assert index.for_delete_files([2])["targets"].to_pylist() == [[0, 1]]
    assert index.dangling().to_pylist() == []
    assert build([data(2), equality(2, spec_id=0, partition="{}")]).dangling().to_pylist() == [1]


def test_r18_a_position_delete_of_an_unpartitioned_spec_is_not_global() -> None:
    assert deletes_of([data(), position(2, spec_id=0, partition="{}")], 0) == set()


def test_r17_r21_a_file_scoped_delete_of_a_dead_file_is_dangling_however_new() -> None:
    """R17, and apache/iceberg#17203: Java never cleans it."""
    rows = [data(1), position(9, referenced_data_file="gone"), vector(9, "also gone"), position(1)]
    assert build(rows).dangling().to_pylist() == [1, 2]


def test_r19_a_deletion_vector_supersedes_position_deletes_of_its_file_alone() -> None:
    rows = [data(), data(), position(2), position(2, referenced_data_file="f0"), vector(2, "f0"), equality(2)]
    assert (deletes_of(rows, 0), deletes_of(rows, 1)) == ({4, 5}, {2, 5})
    assert build(rows).live_targets().to_pylist() == [
        {"row": 2, "targets": 1, "in_scope": 2},
        {"row": 3, "targets": 0, "in_scope": 1},
        {"row": 4, "targets": 1, "in_scope": 1},
        {"row": 5, "targets": 2, "in_scope": 2},
    ]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([data(), vector(1, "f0"), vector(2, "f0")], "Data file f0 has more than one deletion vector"),
        ([vector(1, "gone"), vector(2, "gone")], "Data file gone has more than one deletion vector"),
        ([data(3), vector(2, "f0")], "deletion vector of data file f0 is older"),
        ([data(3), vector(2, None)], "Deletion vector f1 does not say"),
        ([data(), vector(2, "f0", partition=B)], "Delete file f1 and data file f0, .* same partition"),
        ([data(), position(2, referenced_data_file="f0", spec_id=2)], "Delete file f1 and data file f0, .* same"),
    ],
)
def test_contradictions_name_the_file(rows: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(errors.MetadataError, match=words):
        build(rows)


def test_deleted_rows_never_exceed_the_file() -> None:
    rows = [data(), position(1, referenced_data_file="f0", record_count=8), position(2, referenced_data_file="f0")]
    assert build(rows).deleted_rows_per_data_file()["known"].to_pylist() == [10]


def test_rows_of_the_other_kind_are_refused() -> None:
    index = build([data(), equality(2)])
    with pytest.raises(ValueError, match="Row 1 is not a data file"):
        index.for_data_files([0, 1])
    with pytest.raises(ValueError, match="Row 0 is not a delete file"):
        index.for_delete_files(np.array([0]))
    with pytest.raises(ValueError, match="Row 5 is not a data file"):
        build([]).for_data_files([5])


def test_dictionaries_that_differ_between_chunks_are_one() -> None:
    one, other = table([data(), data(partition=B)]), table([equality(2, partition=B, file_path="d")])
    index = delete_index.build(pa.concat_tables([one, other]), unpartitioned_specs=frozenset())
    assert index.for_delete_files([2])["targets"].to_pylist() == [[1]]


def test_specs_without_fields_or_with_dropped_ones_only_are_unpartitioned() -> None:
    void = PartitionField(source_id=1, field_id=1000, transform=VoidTransform(), name="p")
    kept = PartitionField(source_id=2, field_id=1001, transform=IdentityTransform(), name="q")
    specs = {0: PartitionSpec(), 1: PartitionSpec(void, spec_id=1), 2: PartitionSpec(void, kept, spec_id=2)}
    assert delete_scopes.unpartitioned(specs) == {0, 1}


def test_counting_does_not_list_every_pair() -> None:
    """10 k data files times 10 k deletes in one partition are 100 M pairs: 800 MB as a list."""
    import tracemalloc

    count = 10_000
    rows = table([data()])
    files = pa.concat_tables([rows.take([0] * count), table([equality(2)]).take([0] * count)])
    paths = pa.array([f"f{number}" for number in range(2 * count)])
    files = files.set_column(0, table_view.FILES.field("file_path"), paths)
    tracemalloc.start()
    index = delete_index.build(files, unpartitioned_specs=frozenset())
    assert index.counts_per_data_file()["equality"].to_pylist() == [count] * count
    assert index.live_targets()["targets"].to_pylist() == [count] * count
    assert index.deleted_rows_per_data_file()["equality_keys"].to_pylist() == [10 * count] * count
    peak = tracemalloc.get_traced_memory()[1]  # numpy reports its arrays
    tracemalloc.stop()
    assert peak < 30_000_000

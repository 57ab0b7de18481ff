"""The rules of deletes, pair by pair and in the words of the Iceberg specification: the slow reference for the delete
index. Files are dictionaries, as `to_pylist` gives them for rows of model.table.FILES."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

DATA, POSITION, EQUALITY = 0, 1, 2


def is_vector(delete: dict[str, Any]) -> bool:
    return delete["content"] == POSITION and delete["file_format"] == "PUFFIN"


def in_scope(data: dict[str, Any], delete: dict[str, Any], unpartitioned: frozenset[int]) -> bool:
    """Place and sequence number allow the delete to apply; deletion vectors that supersede it are left aside."""
    same_partition = (data["spec_id"], data["partition"]) == (delete["spec_id"], delete["partition"])
    if delete["content"] == EQUALITY:
        somewhere = delete["spec_id"] in unpartitioned or same_partition
        return somewhere and data["sequence_number"] < delete["sequence_number"]
    if delete["referenced_data_file"] is not None:
        somewhere = delete["referenced_data_file"] == data["file_path"]
    else:
        somewhere = same_partition
    return somewhere and data["sequence_number"] <= delete["sequence_number"]


def applies(
    data: dict[str, Any], delete: dict[str, Any], files: Sequence[dict[str, Any]], unpartitioned: frozenset[int]
) -> bool:
    if not in_scope(data, delete, unpartitioned):
        return False
    if delete["content"] == EQUALITY or is_vector(delete):
        return True
    return not any(is_vector(file) and file["referenced_data_file"] == data["file_path"] for file in files)


def contradiction(files: Sequence[dict[str, Any]], unpartitioned: frozenset[int]) -> str | None:
    """What makes every reader refuse the table, if anything does."""
    vectors = [file for file in files if is_vector(file)]
    referenced = [vector["referenced_data_file"] for vector in vectors]
    if None in referenced:
        return "does not say which data file"
    if len(set(referenced)) < len(referenced):
        return "more than one deletion vector"
    pairs = [
        (data, delete)
        for data in files
        for delete in files
        if data["content"] == DATA and delete["content"] == POSITION
        if delete["referenced_data_file"] == data["file_path"]
    ]
    if any(is_vector(delete) and delete["sequence_number"] < data["sequence_number"] for data, delete in pairs):
        return "older than the file"
    applied = [pair for pair in pairs if applies(*pair, files, unpartitioned)]
    if any((data["spec_id"], data["partition"]) != (one["spec_id"], one["partition"]) for data, one in applied):
        return "not in the same partition"
    return None

"""Deletes and the files of a run that is to be undone (R2, R6, R17, R18). Delete files of the snapshot before a commit
and of the branch's head come in; out come those that have to come back with the replaced files, or the reason why the
rows would not be the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.metadata.deletes import delete_paths
from iceberg_compaction.model import table_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema


class UndoRefusal(Exception):
    """The reason why a run cannot be undone, in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRules:
    """The facts that decide which rows a delete file reaches."""

    io: FileIO
    global_specs: frozenset[int]  # whose equality deletes are global
    paths: delete_paths.NamedPaths

    def reaches(self, delete: dict[str, Any], files: Sequence[dict[str, Any]], *, by_number: bool = True) -> bool:
        """Whether a delete file may delete rows of one of these data files. Without `by_number`, any number counts.
        Both are rows of model.table_view.FILES."""
        if delete["content"] == table_view.EQUALITY_DELETES:
            everywhere = delete["spec_id"] in self.global_specs
            return any(
                (everywhere or _partition_key(file) == _partition_key(delete))
                and (not by_number or file["sequence_number"] < delete["sequence_number"])
                for file in files
            )
        if delete["referenced_data_file"] is not None:
            return any(file["file_path"] == delete["referenced_data_file"] for file in files)
        near = {file["file_path"] for file in files if _partition_key(file) == _partition_key(delete)}
        return bool(near) and not near.isdisjoint(self._named(delete))

    def _named(self, delete: dict[str, Any]) -> list[str]:
        """The paths in a position delete file that may name several."""
        columns = pa.Table.from_pylist([{name: delete[name] for name in delete_paths.COLUMNS}])
        result = self.paths.read(self.io, columns)[delete["file_path"]]
        if isinstance(result, errors.CompactionError):
            raise UndoRefusal(f"A delete file cannot be read, so its rows are unknown: {result}")
        if result is None:
            raise UndoRefusal(f"The delete file {delete['file_path']} is encrypted or too large to be looked at.")
        paths: list[str] = result.to_pylist()
        return paths


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAndDeletes:
    """The data files of one commit of the run, and the deletes around it, as rows of model.table_view.FILES."""

    written: Sequence[dict[str, Any]]
    replaced: Sequence[dict[str, Any]]
    before: Sequence[dict[str, Any]]  # delete files of the snapshot before it
    of_head: Sequence[dict[str, Any]]  # delete files of the head

    def check_newer(self, rules: DeleteRules) -> None:
        """Raises UndoRefusal if a delete came after the commit that reaches its files."""
        older = {delete["file_path"] for delete in self.before}
        files = [*self.written, *self.replaced]
        for delete in self.of_head:
            if delete["file_path"] not in older and rules.reaches(delete, files, by_number=False):
                kind = "equality" if delete["content"] == table_view.EQUALITY_DELETES else "position"
                raise UndoRefusal(
                    f"Rows of the files that the run wrote may have been deleted since, by the {kind} deletes in "
                    f"{delete['file_path']}; these deletes would be lost"
                )

    def missing(self, rules: DeleteRules) -> list[dict[str, Any]]:
        """The delete files that applied to the replaced files and are not in the table any more."""
        present = {delete["file_path"] for delete in self.of_head}
        return [
            delete
            for delete in self.before
            if delete["file_path"] not in present and rules.reaches(delete, self.replaced)
        ]


def check_restored(
    restored: Iterable[dict[str, Any]],
    removed_by_run: Iterable[str],
    others: Sequence[dict[str, Any]],
    rules: DeleteRules,
) -> None:
    """Raises UndoRefusal for a delete file that has to come back, but left the table by another commit, or would begin
    to apply to other data files."""
    own = set(removed_by_run)
    for delete in restored:
        path = delete["file_path"]
        if path not in own:
            raise UndoRefusal(f"The delete file {path} of replaced files has been removed or rewritten since")
        if rules.reaches(delete, others):
            raise UndoRefusal(f"The delete file {path} would come back and delete rows of files that came later")


def check_columns(restored: Iterable[dict[str, Any]], schema: Schema) -> None:
    """Raises UndoRefusal for equality deletes that would come back and compare a column that was dropped since: many
    readers could not read the table at all."""
    for delete in restored:
        dropped = [number for number in delete["equality_ids"] or () if schema.find_column_name(number) is None]
        if dropped:
            raise UndoRefusal(
                f"The equality deletes in {delete['file_path']} would come back, and a column that they compare (field "
                f"{dropped[0]}) was dropped since"
            )


def delete_files(files: pa.Table) -> list[dict[str, Any]]:
    """The delete files among files, as rows."""
    rows: list[dict[str, Any]] = files.filter(pc.not_equal(files["content"], table_view.DATA)).to_pylist()
    return rows


def _partition_key(file: dict[str, Any]) -> tuple[int, str]:
    return file["spec_id"], file["partition"]

"""Tables for tests of commits with deletes: data files that exist in manifests only, and delete files that name them.
Nothing but position deletes that have to be opened is ever written as a file, so a table costs milliseconds."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table.snapshots import Operation
from pyiceberg.typedef import Record
from tests.factories import delete_files, manifests, rewrites
from tests.factories.cities import BY_CITY, SCHEMA
from tests.factories.lake import make_table

from iceberg_compaction.metadata import partition_tuples
from iceberg_compaction.metadata.deletes import delete_index, delete_scopes
from iceberg_compaction.metadata.manifest import live_files, snapshot_manifests
from iceberg_compaction.model.rewrite_plan import PLAN_FILES
from iceberg_compaction.model.rewrite_task import StagedFile
from iceberg_compaction.operations.rewrite_files.change.replace_files import ReplaceGroup, ReplaceRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table
    from tests.factories.lake import Lake

ROWS = 10  # of every data file


@dataclass(slots=True)
class DeleteTable:
    """A table partitioned by city. Every method that adds files is one commit, and so one sequence number."""

    table: Table

    def data(self, *cities: str | None, spec_id: int | None = None, sequence_number: int | None = None) -> list[str]:
        """A data file for each city (an unpartitioned spec: for each None); their paths. `sequence_number`: an older
        one than the commit's, as a rewrite's files have."""
        made = [self._file(f"{uuid.uuid4()}.parquet", city, spec_id) for city in cities]
        self.table = manifests.add_files(self.refresh().table, made, sequence_number=sequence_number)
        return [file.file_path for file in made]

    def position(self, city: str | None, *targets: str, scoped: bool = False, more: Sequence[str] = ()) -> str:
        """A position delete file for row 0 of the targets: `scoped` to the only one, or real and for the partition.
        `more` are targets of a second file of the same manifest."""
        made = [self._position(city, names, scoped) for names in (targets, more) if names]
        self._add(made, Operation.DELETE)
        return made[0].file_path

    def equality(self, city: str | None, *ids: int, spec_id: int | None = None) -> str:
        """An equality delete file that compares the fields with these ids, `id` by default."""
        kind = {"content": DataFileContent.EQUALITY_DELETES, "equality_ids": list(ids or (1,)), "record_count": 3}
        made = self._file(f"{uuid.uuid4()}-eq.parquet", city, spec_id, **kind)
        self._add([made], Operation.DELETE)
        return made.file_path

    def request(self, *removed: str, deleted: int = 0, into: tuple[int, str] | None = None) -> ReplaceRequest:
        """The files become one for each partition, less the deleted rows in all; `into`: all become one, there."""
        chosen = [row for row in self.live() if row["file_path"] in removed]
        assert len(chosen) == len(removed)
        places = list(dict.fromkeys((row["spec_id"], row["partition"]) for row in chosen))
        outputs = [into] if into else places
        rows = [_records(chosen, None if into else place) for place in outputs]
        rows[0] -= deleted
        group = ReplaceGroup(
            id=0,
            removed=pa.Table.from_pylist([{n: row[n] for n in PLAN_FILES.names} for row in chosen], schema=PLAN_FILES),
            partitions=tuple(places),
            added=tuple(_staged(*place, count) for place, count in zip(outputs, rows, strict=True) if count),
            deleted_records=deleted,
        )
        return ReplaceRequest(pin=rewrites.pin_of(self.table), groups=(group,))

    def refresh(self) -> DeleteTable:
        self.table = self.table.catalog.load_table(self.table.name())
        return self

    def live(self) -> list[dict[str, Any]]:
        """The live files of the table as it is in the catalog, as rows of model.table.FILES."""
        table = self.refresh().table
        snapshot = table.current_snapshot()
        assert snapshot is not None
        rows: list[dict[str, Any]] = live_files.live_files(
            table, snapshot_manifests.read(table.io, snapshot)
        ).to_pylist()
        return rows

    def deletes(self) -> set[str]:
        """The paths of live delete files."""
        return {row["file_path"] for row in self.live() if row["content"]}

    def applying(self, path: str) -> set[str]:
        """The paths of the delete files that apply to a data file."""
        table = self.refresh().table
        snapshot = table.current_snapshot()
        assert snapshot is not None
        found = live_files.live_files(table, snapshot_manifests.read(table.io, snapshot))
        paths = found["file_path"].to_pylist()
        index = delete_index.build(found, unpartitioned_specs=delete_scopes.unpartitioned(table.specs()))
        row = index.for_data_files([paths.index(path)]).to_pylist()[0]
        return {paths[at] for at in (*row["position"], *row["equality"])}

    def summary(self) -> dict[str, str]:
        snapshot = self.refresh().table.current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        return snapshot.summary.additional_properties

    def place(self, city: str | None, spec_id: int = 0) -> tuple[int, str]:
        spec, schema = self.table.specs()[spec_id], self.table.schema()
        return spec_id, partition_tuples.encode_one(_record(spec, city), spec, schema)

    def _position(self, city: str | None, targets: Sequence[str], scoped: bool) -> DataFile:
        name = f"{uuid.uuid4()}-pos.parquet"
        size, changes = 1000, {}
        if scoped:
            (target,) = targets
            bound = {manifests.FILE_PATH_ID: target.encode()}
            changes = {"lower_bounds": bound, "upper_bounds": bound}
        else:
            path = Path(f"{self.table.location().removeprefix('file://')}/data/{name}")
            size = delete_files.position_delete(
                path, [(target, 0) for target in targets], sequence_number=0
            ).file_size_in_bytes
        changes |= {"content": DataFileContent.POSITION_DELETES, "record_count": len(targets)}
        return self._file(name, city, None, file_size_in_bytes=size, **changes)

    def _file(self, name: str, city: str | None, spec_id: int | None, **changes: Any) -> DataFile:
        spec = self.table.specs()[self.table.spec().spec_id if spec_id is None else spec_id]
        changes = {"file_format": FileFormat.PARQUET, **changes, "spec_id": spec.spec_id}
        return manifests.fake_data_file(self.table, name, partition=_record(spec, city), **changes)

    def _add(self, made: list[DataFile], operation: Operation) -> None:
        self.table = manifests.add_files(self.refresh().table, made, operation=operation)


def delete_table(lake: Lake, *, spec: PartitionSpec = BY_CITY) -> DeleteTable:
    """An empty one."""
    return DeleteTable(make_table(lake.catalog, lake.name("t"), SCHEMA, spec=spec))


def _record(spec: PartitionSpec, city: str | None) -> Record:
    return Record(*(city for _ in spec.fields))


def _records(rows: list[dict[str, Any]], place: tuple[int, str] | None) -> int:
    return sum(row["record_count"] for row in rows if place in (None, (row["spec_id"], row["partition"])))


def _staged(spec_id: int, partition: str, rows: int) -> StagedFile:
    name = f"file:///new/{uuid.uuid4()}.parquet"
    return StagedFile(file_path=name, file_size_in_bytes=500, record_count=rows, spec_id=spec_id, partition=partition)

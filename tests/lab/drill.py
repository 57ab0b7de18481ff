"""A table to die on: a run on it is killed in a process of its own, then it is looked at, and a plain run makes
everything good."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tests.factories import nursery, reader, storage
from tests.lab import meddle, scene

from iceberg_compaction import Compactor, Kind

if TYPE_CHECKING:
    from collections import Counter
    from pathlib import Path

    from pyiceberg.table import Table
    from tests.factories.reader import Row
    from tests.lab.points import Point

    from iceberg_compaction import Outcome
    from iceberg_compaction.settings import CatalogSettings


@dataclasses.dataclass(slots=True, kw_only=True)
class Bench:
    """A table to die on, and what is known about it."""

    settings: CatalogSettings
    name: str
    state: Path
    model: Counter[Row]
    nursery: nursery.Nursery | None = None  # where it dies

    def kill(self, point: Point, **more: Any) -> None:
        """A run that dies at the point."""
        assert self.nursery is not None
        more |= {
            "meddle": point.meddle,
            "manifests": point.manifests,
            "deletes": point.deletes,
            **dataclasses.asdict(point.moment),
        }
        end = self.nursery.run(dataclasses.replace(self.job(), **more))
        assert end.killed, f"the run got past the point: {point.name}"
        meddle.apply(point.meddle, self.model)

    def kill_after(self, seconds: float) -> None:
        """A run that is killed after a time, if it has not ended by then."""
        assert self.nursery is not None
        self.nursery.run(dataclasses.replace(self.job(), seconds=seconds))

    def job(self) -> nursery.Job:
        return nursery.Job(
            settings=self.settings.model_dump_json(),
            table=self.name,
            state=str(self.state),
            options=scene.OPTIONS,
        )

    def check_readable(self) -> None:
        """No row is lost or revived, right after the crash."""
        with self.table() as table:
            assert reader.rows(table) == self.model

    def check_statistics(self) -> None:
        """Every statistics file that the table names is there."""
        with self.table() as table:
            for each in (*table.metadata.statistics, *table.metadata.partition_statistics):
                assert len(table.io.new_input(each.statistics_path)) == each.file_size_in_bytes

    def check_plain_run(self, *, doubtful: bool | None = False) -> Outcome:
        """A plain run succeeds, and nothing is left to do or to remove. `doubtful`: what the dead run left stays,
        because nobody can tell whether it was published once; None: either is possible."""
        compactor = Compactor(self.settings, "small-files", options=scene.OPTIONS, engine="inline", state=self.state)
        outcome = compactor.compact_table(self.name)
        compactor.catalog.close()
        assert outcome.kind in (Kind.COMPACTED, Kind.HEALTHY), outcome.sentence
        with self.table() as table:
            assert reader.rows(table) == self.model
            files = reader.Reader().live(table, table.current_snapshot())
            assert sorted(file["partition"] for file in files) == [(0,), (1,), (2,)], outcome.sentence
            # Without equality deletes PyIceberg can read it, too.
            assert storage.row_multiset(table.scan().to_arrow()) == as_read(self.model)
            left = scene.unexplained(table)
            assert bool(left) == (doubtful if doubtful is not None else "it is unknown whether" in outcome.sentence), (
                left
            )
            assert ("landed, so its files stay" in outcome.sentence) == bool(left), outcome.sentence
        return outcome

    def table(self) -> _Loaded:
        return _Loaded(self.settings, self.name)


class _Loaded:
    """The table as the catalog has it now, by a connection of its own."""

    def __init__(self, settings: CatalogSettings, name: str) -> None:
        self._settings, self._name = settings, name

    def __enter__(self) -> Table:
        from iceberg_compaction.catalog import connect

        self._catalog = connect.connect(self._settings)
        return self._catalog.load_table(self._name)

    def __exit__(self, *stop: object) -> None:
        self._catalog.close()


def as_read(model: Counter[Row]) -> Counter[str]:
    names = scene.ROWS.names
    return type(storage.row_multiset(scene.rows(0, 0, 0)))(
        {repr(dict(zip(names, row, strict=True))): count for row, count in model.items()}
    )

"""What a scenario plays on: one table that Iceberg Java writes and reads, and this product compacts in between.

A scenario is a generator: it writes, yields, and after the compaction may look at what came out. What holds for every
compaction is checked by the test that runs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.schema import Schema
from tests.factories import java_deletes, java_rows

from iceberg_compaction import Compactor, Kind, Outcome, Plan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

DATA, POSITION, EQUALITY = 0, 1, 2
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"  # how Java writes a null in a partition path
Play = Generator[None, Outcome, None]
Rows = Iterable[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One rule and the table that proves it."""

    name: str
    play: Callable[[Scene], Play]
    columns: str | Schema = "id bigint, p string, v string"  # a schema where Spark does not know the types
    partitioned_by: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    strategy: str = "full"
    options: Mapping[str, Any] = field(default_factory=lambda: {"rewrite-all": True})
    branch: str = "main"
    engine: str = "inline"
    kind: Kind = Kind.COMPACTED
    left: tuple[int, int] | None = (0, 0)  # position and equality delete files that stay; None: not looked at
    settled: bool = True  # another run would find nothing to do
    spark: bool = False  # read by Spark too, not only by Java's generic reader
    generic: bool = True  # Java's generic reader can read it
    again: bool = False  # Java compacts it afterwards


def scenario(name: str, **settings: Any) -> Callable[[Callable[[Scene], Play]], Scenario]:
    """Makes a scenario of the function that plays it."""
    return lambda play: Scenario(name=name, play=play, **settings)


def rows(*ids: int, p: str | None = "a") -> list[dict[str, Any]]:
    """Rows of the usual columns."""
    return [{"id": i, "p": p, "v": f"v{i}"} for i in ids]


@dataclass(slots=True, kw_only=True)
class Scene:
    """One table. `name` is namespace.table."""

    session: SparkSession
    catalog: Catalog
    name: str
    scenario: Scenario
    copies: bool = False  # whether row groups are taken over as bytes wherever they can be
    table: java_deletes.JavaTable = field(init=False)

    def create(self) -> None:
        made = self.scenario
        by = f"partitioned by ({made.partitioned_by})" if made.partitioned_by else ""
        properties = {"write.distribution-mode": "none", "write.delete.mode": "merge-on-read"}
        properties |= {f"write.{verb}.mode": "merge-on-read" for verb in ("update", "merge")} | made.properties
        if isinstance(made.columns, Schema):
            java_rows.create(self.session, self.name, made.columns, properties)
            return self.load()
        listed = ", ".join(f"'{key}'='{value}'" for key, value in properties.items())
        self.sql(f"create table {{t}} ({made.columns}) using iceberg {by} tblproperties ({listed})")
        return self.load()

    def load(self) -> None:
        self.table = java_deletes.load(self.session, self.name)

    # What Java does

    def sql(self, *statements: str) -> None:
        for statement in statements:
            self.session.sql(statement.replace("{t}", f"lake.{self.name}").replace("{name}", self.name)).collect()
        if hasattr(self, "table"):
            self.table.table.refresh()

    def write(self, some: Rows | pa.Table, **how: Any) -> list[Any]:
        """Data files, not committed."""
        self.table.table.refresh()
        return java_rows.data_files(self.table, some, **how)

    def append(self, *batches: Rows | pa.Table, **how: Any) -> list[str]:
        """One commit per batch; the paths of all files."""
        return [str(file.location()) for batch in batches for file in java_rows.append(self.table, batch, **how)]

    def equality(self, keys: Sequence[Mapping[str, Any]], *columns: str, **how: Any) -> Any:
        """An equality delete file, not committed. The columns are those of the first key, if none are named."""
        self.table.table.refresh()
        return java_rows.equality_delete(self.table, keys, columns or tuple(keys[0]), **how)

    def positions(self, pairs: Sequence[tuple[str, int]], **how: Any) -> Any:
        """A position delete file, not committed."""
        self.table.table.refresh()
        if "scoped" in how:
            return java_deletes.position_delete(self.table, pairs, **how)
        return java_rows.position_delete(self.table, pairs, **how)

    def commit(self, *deletes: Any, rows: Sequence[Any] = ()) -> None:
        java_deletes.commit(self.table, rows=rows, deletes=deletes)

    def delete(self, keys: Sequence[Mapping[str, Any]], *columns: str, **how: Any) -> None:
        """Equality deletes in a commit of their own."""
        self.commit(self.equality(keys, *columns, **how))

    def remove(self, *paths: str) -> None:
        """Data files leave the table; their delete files stay."""
        java_deletes.remove(self.table, paths)

    def evolve(self, change: Callable[[Any], Any]) -> None:
        """A change of the schema by Java's API."""
        self.table.table.refresh()
        change(self.table.table.updateSchema()).commit()

    def seen(self) -> Counter[str]:
        return java_rows.rows(self.table, branch=self.scenario.branch)

    def seen_by_spark(self) -> Counter[str]:
        return Counter(repr(row) for row in self.session.table(f"lake.{self.name}").collect())

    def ids(self) -> list[int]:
        """The column `id` in the order in which Java reads it."""
        found: list[int] = java_rows.read(self.table, branch=self.scenario.branch)["id"].to_pylist()
        return found

    # What this product does

    def compactor(self, strategy: str | None = None, **options: Any) -> Compactor:
        chosen = options or dict(self.scenario.options)
        return Compactor(
            self.catalog,
            strategy=strategy or self.scenario.strategy,
            # One snapshot, so that it can be looked at.
            options={"partial-progress": False, "copy-row-groups": "always" if self.copies else "auto"} | chosen,
            branch=self.scenario.branch,
            engine=self.scenario.engine,
            spark=self.session,
        )

    def compact(self, strategy: str | None = None, **options: Any) -> Outcome:
        return self.compactor(strategy, **options).compact_table(self.name)

    def plan(self, strategy: str | None = None, **options: Any) -> Plan:
        return self.compactor(strategy, **options).plan_table(self.name)

    # What the metadata say, by PyIceberg

    def loaded(self) -> Table:
        return self.catalog.load_table(self.name)

    def entries(self) -> list[ManifestEntry]:
        """All entries of the branch's head, removed ones too, with inherited numbers filled in and spec ids set."""
        table = self.loaded()
        snapshot = table.metadata.snapshot_by_name(self.scenario.branch)
        assert snapshot is not None
        found = []
        for manifest in snapshot.manifests(table.io):
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                entry.data_file.spec_id = manifest.partition_spec_id
                found.append(entry)
        return found

    def files(self, content: int = DATA) -> list[Any]:
        """Live files of one content."""
        return [e.data_file for e in self.entries() if e.status != 2 and int(e.data_file.content) == content]

    def added(self) -> list[Any]:
        """The data files that the last compaction wrote."""
        return [e.data_file for e in self.entries() if e.status == 1 and int(e.data_file.content) == DATA]

    def summary(self) -> dict[str, str]:
        snapshot = self.loaded().metadata.snapshot_by_name(self.scenario.branch)
        assert snapshot is not None
        assert snapshot.summary is not None
        return {"operation": snapshot.summary.operation.value, **snapshot.summary.additional_properties}

"""Random tables over their lives: schemas and specs evolve, rows come and go by deletes of every kind, this product and
Iceberg Java compact in turns. After each step Java reads just the rows that a plain model has."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyiceberg import types
from pyiceberg.schema import Schema
from tests.factories import java_deletes, java_rows, racing, table_model

from iceberg_compaction import Compactor, Kind
from iceberg_compaction.catalog import connect
from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from collections import Counter
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

SEEDS = int(os.environ.get("INTEROP_SEEDS", "5"))
STEPS = int(os.environ.get("INTEROP_STEPS", "60"))

PLACE, AT = 2, 3  # field ids of the columns that specs are made of, besides the key
KINDS: list[types.IcebergType] = [
    types.BooleanType(), types.IntegerType(), types.LongType(), types.FloatType(), types.DoubleType(),
    types.DecimalType(7, 2), types.StringType(), types.BinaryType(), types.DateType(), types.TimestampType(),
    types.TimestamptzType(),
]  # fmt: skip
KEYS = (
    types.BooleanType, types.IntegerType, types.LongType, types.DecimalType, types.StringType, types.BinaryType,
    types.DateType, types.TimestampType, types.TimestamptzType,
)  # fmt: skip
FORMATS = ("parquet", "avro", "orc")


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A live data file."""

    path: str
    spec_id: int
    partition: Any  # Java's value
    place: str  # the same as text
    keys: tuple[int, ...]  # of its rows, in order; deleted ones too


@pytest.fixture(scope="module")
def catalog(java: SparkSession, java_lake: Path) -> Catalog:
    return connect.connect(
        CatalogSettings(name="lake", uri=f"sqlite:///{java_lake}/catalog.db", warehouse=f"file://{java_lake}")
    )


@dataclass(slots=True)
class Life:
    """One table and its model."""

    session: SparkSession
    catalog: Catalog
    seed: int
    name: str = field(init=False)
    java: java_deletes.JavaTable = field(init=False)
    model: table_model.Model = field(default_factory=table_model.Model)
    history: list[str] = field(default_factory=list)
    known: dict[str, tuple[int, ...]] = field(default_factory=dict)  # keys by path
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.name = f"db.random_{self.seed}"
        properties = {"format-version": "1" if self.seed % 3 == 2 else "2", "write.distribution-mode": "none"}
        properties["write.delete.mode"] = self.rng.choice(["merge-on-read", "copy-on-write"])
        java_rows.create(self.session, self.name, self._first_schema(), properties)
        self.java = java_deletes.load(self.session, self.name)

    def _first_schema(self) -> Schema:
        kinds: list[types.IcebergType] = self.rng.sample(KINDS, self.rng.randint(2, 4))
        nested = types.StructType(
            types.NestedField(51, "x", types.IntegerType(), required=False),
            types.NestedField(52, "y", self.rng.choice(KINDS[:8]), required=False),
        )
        kinds.append(self.rng.choice([
            nested, types.ListType(61, types.LongType(), element_required=False),
            types.MapType(71, types.StringType(), 72, nested, value_required=False),
        ]))  # fmt: skip
        columns = [types.NestedField(n + 10, f"c{n}", kind, required=False) for n, kind in enumerate(kinds)]
        return Schema(
            types.NestedField(table_model.KEY, "k", types.LongType(), required=False),
            types.NestedField(PLACE, "p", types.StringType(), required=False),
            types.NestedField(AT, "t", types.TimestamptzType(), required=False),
            *columns,
        )

    # What is there

    @property
    def schema(self) -> Schema:
        return java_rows.schema_of(self.java)

    @property
    def version(self) -> int:
        return int(self.java.table.operations().current().formatVersion())

    def files(self) -> list[File]:
        self.java.table.refresh()
        tasks = self.java.table.newScan().planFiles()
        found = {}
        for task in self.java.iceberg.relocated.com.google.common.collect.Lists.newArrayList(tasks):
            file, path = task.file(), str(task.file().location())
            place = self.java.spec(file.specId()).partitionToPath(file.partition())
            found[path] = File(
                path=path, spec_id=file.specId(), partition=file.partition(), place=place, keys=self.keys(path)
            )
        tasks.close()
        return [found[path] for path in sorted(found, key=lambda path: found[path].keys)]

    def keys(self, path: str) -> tuple[int, ...]:
        if path not in self.known:
            read = pq.read_table(path.removeprefix("file:").replace("///", "/"), columns=["k"])
            self.known[path] = tuple(read["k"].to_pylist())
        return self.known[path]

    def check(self) -> None:
        """Java reads what the model has."""
        schema = self.schema
        expected = self.model.expected(schema)
        found = self.read(schema)
        assert found == expected, "\n".join(
            [f"seed {self.seed}, lost {expected - found}, made up {found - expected}, after:", *self.history]
        )

    def read(self, schema: Schema) -> Counter[str]:
        if self.java.table.currentSnapshot() is None:
            return java_rows.multiset(java_rows.arrow(self.java, []))
        if self.lost_keys(schema):  # Iceberg's generic reader does not find keys that the schema has lost
            return java_rows.multiset(self.session.table(f"lake.{self.name}").toArrow())
        return java_rows.rows(self.java)

    def lost_keys(self, schema: Schema) -> bool:
        tasks = self.java.table.newScan().planFiles()
        ids = set()
        for task in self.java.iceberg.relocated.com.google.common.collect.Lists.newArrayList(tasks):
            for delete in task.deletes():
                ids |= set(delete.equalityFieldIds() or ())
        tasks.close()
        return any(schema.find_column_name(field_id) is None for field_id in ids)

    # Steps

    def step(self) -> None:
        names = list(STEPS_BY_WEIGHT)
        while True:
            (chosen,) = self.rng.choices(names, [STEPS_BY_WEIGHT[name] for name in names])
            done: str | None = getattr(self, chosen)()
            if done is not None:
                break
        self.history.append(f"{len(self.history)} {chosen}: {done}")
        self.java.table.refresh()

    def new_rows(self) -> list[table_model.Row]:
        def fixed(key: int) -> table_model.Row:
            return {PLACE: self.rng.choice(["a", "b", None]), AT: (key % 5) * 86_400_000_000 + 1}

        return self.model.make(self.schema, self.rng.randint(3, 12), self.rng, fixed)

    def append(self) -> str:
        rows, schema = self.new_rows(), self.schema
        properties = {"write.parquet.row-group-size-bytes": "1"} if self.rng.random() < 0.3 else {}
        properties["write.parquet.row-group-check-min-record-count"] = "2"
        java_rows.append(
            self.java,
            [table_model.by_name(row, schema) for row in rows],
            properties=properties,
            spec_id=self.any_spec(),
        )
        self.model.add(rows)
        return f"{len(rows)} rows from {rows[0][table_model.KEY]}"

    def any_spec(self) -> int | None:
        """Now and then a writer still uses an older spec."""
        specs = sorted(int(spec_id) for spec_id in self.java.table.specs())
        return self.rng.choice(specs) if self.rng.random() < 0.2 else None

    def delete_positions(self) -> str | None:
        files = [file for file in self.files() if file.keys]
        if self.version < 2 or not files:
            return None
        deletes, gone = [], []
        for file in self.rng.sample(files, min(len(files), self.rng.randint(1, 3))):
            most = len(file.keys) if self.rng.random() < 0.1 else len(file.keys) // 3 + 1
            positions = self.rng.sample(range(len(file.keys)), self.rng.randint(1, most))
            pairs = [(file.path, position) for position in positions]
            gone += [file.keys[position] for position in positions]
            same = [other for other in files if (other.spec_id, other.place) == (file.spec_id, file.place)]
            if self.rng.random() < 0.5:  # of the whole partition
                other = self.rng.choice(same)
                pairs.append((other.path, 0))
                gone.append(other.keys[0])
            deletes.append(
                java_rows.position_delete(
                    self.java,
                    sorted(set(pairs)),
                    partition=file.partition,
                    spec_id=file.spec_id,
                    file_format=self.rng.choice(FORMATS),
                )
            )
        java_deletes.commit(self.java, deletes=deletes)
        self.model.remove(gone)
        return f"keys {sorted(set(gone))}"

    def delete_equal(self) -> str | None:
        if self.version < 2 or not self.files():
            return None
        delete, gone, told = self.equality()
        java_deletes.commit(self.java, deletes=[delete])
        self.model.remove(gone)
        return told

    def upsert(self) -> str | None:
        """Rows and deletes of one commit: those by key do not reach the rows, those by position do."""
        if self.version < 2 or not self.files():
            return None
        delete, gone, told = self.equality()
        rows, schema = self.new_rows(), self.schema
        files = java_rows.data_files(self.java, [table_model.by_name(row, schema) for row in rows])
        deletes, dead = [delete], []
        for file in files if self.rng.random() < 0.5 else ():
            path = str(file.location())
            deletes.append(
                java_rows.position_delete(
                    self.java, [(path, 0)], partition=file.partition(), spec_id=file.specId(), file_format="avro"
                )
            )
            dead.append(self.keys(path)[0])
        java_deletes.commit(self.java, rows=files, deletes=deletes)
        self.model.remove(gone)
        self.model.add(rows)
        self.model.remove(dead)
        return f"{told} and of {rows[0][table_model.KEY]} on {dead}"

    def equality(self) -> tuple[Any, list[int], str]:
        """An equality delete, global or of one partition, and the keys of the rows that it deletes."""
        files, schema = self.files(), self.schema
        usable = [column for column in schema.fields if isinstance(column.field_type, KEYS)]
        chosen = self.rng.sample(usable, self.rng.choice([1, 1, 2]))
        if self.rng.random() < 0.4:
            chosen = [schema.find_field(table_model.KEY)]
        live = list(self.model.rows.values())
        picked = self.rng.sample(live, min(len(live), self.rng.randint(1, 3)))
        wanted = [{column.field_id: row.get(column.field_id) for column in chosen} for row in picked]
        if sum(_matches(row, wanted) for row in live) > len(live) // 3 and self.rng.random() < 0.9:
            return self.equality()  # tables should not run empty
        wanted = wanted or [{column.field_id: None for column in chosen}]
        specs = [int(spec_id) for spec_id, spec in self.java.table.specs().items() if spec.isUnpartitioned()]
        spec_id, partition, scope = (specs or [None])[0], "", files
        if spec_id is None or self.rng.random() < 0.6:
            place = self.rng.choice(files)
            spec_id = place.spec_id
            if not self.java.spec(spec_id).isUnpartitioned():
                partition = place.partition
                scope = [file for file in files if (file.spec_id, file.place) == (place.spec_id, place.place)]
        keys = [{column.name: row[column.field_id] for column in chosen} for row in wanted]
        delete = java_rows.equality_delete(
            self.java,
            keys,
            [column.name for column in chosen],
            partition=partition,
            spec_id=spec_id,
            file_format=self.rng.choice(FORMATS),
        )
        reached = {key for file in scope for key in file.keys} & self.model.rows.keys()
        gone = [key for key in reached if _matches(self.model.rows[key], wanted)]
        return delete, gone, f"{keys} in spec {spec_id} {partition}"

    def delete_by_spark(self) -> str | None:
        if self.version < 2 or self.lost_keys(self.schema):
            return None
        divisor = self.rng.randint(2, 5)
        self.session.sql(f"delete from lake.{self.name} where k % {divisor} = 1").collect()
        self.model.remove([key for key in self.model.rows if key % divisor == 1])
        return f"k % {divisor} = 1"

    def drop_files(self) -> str | None:
        files = self.files()
        if len(files) < 3:
            return None
        chosen = self.rng.sample(files, 1)
        java_deletes.remove(self.java, [file.path for file in chosen])
        self.model.remove(key for file in chosen for key in file.keys)
        return str([file.keys for file in chosen])

    def evolve_schema(self) -> str | None:
        schema = self.schema
        extra = [column for column in schema.fields if column.field_id > AT]
        what = self.rng.choice(["add", "add", "rename", "drop", "move", "promote", "nested"])
        column = self.rng.choice(extra) if extra else None
        update = self.java.table.updateSchema()
        if what == "add":
            kind = self.rng.choice(KINDS)
            update.addColumn(f"n{len(self.history)}", self._java_type(kind))
            told = str(kind)
        elif column is None:
            return None
        elif what == "rename":
            update.renameColumn(column.name, f"r{len(self.history)}")
            told = column.name
        elif what == "drop" and len(extra) > 2:
            update.deleteColumn(column.name)
            told = column.name
        elif what == "move":
            update.moveFirst(column.name)
            told = column.name
        elif what == "promote" and type(column.field_type) in _PROMOTIONS:
            wider = _PROMOTIONS[type(column.field_type)]
            update.updateColumn(column.name, self._java_type(wider))
            told = f"{column.name} to {wider}"
        elif what == "nested" and isinstance(column.field_type, types.StructType):
            update.addColumn(column.name, f"n{len(self.history)}", self._java_type(types.StringType()))
            told = f"in {column.name}"
        else:
            return None
        update.commit()
        return f"{what} {told}"

    def _java_type(self, kind: types.IcebergType) -> Any:
        return self.java.iceberg.types.Types.fromPrimitiveString(str(kind))

    def evolve_spec(self) -> str | None:
        express = self.java.iceberg.expressions.Expressions
        fields = {
            "p": "p",
            "k_bucket": express.bucket("k", 2),
            "t_day": express.day("t"),
            "k_trunc": express.truncate("k", 10),
        }
        name = self.rng.choice(list(fields))
        update = self.java.table.updateSpec()
        present = {str(part.name()) for part in self.java.table.spec().fields() if str(part.transform()) != "void"}
        if name in present:
            update.removeField(name)
        elif len(present) < 2:
            update.addField(name, fields[name]) if name != "p" else update.addField("p")
        else:
            return None
        update.commit()
        return f"{'remove' if name in present else 'add'} {name}"

    def set_order(self) -> str:
        order = self.rng.choice(["locally ordered by k desc", "locally ordered by p, truncate(3, k)", "unordered"])
        self.session.sql(f"alter table lake.{self.name} write {order}")
        return order

    def upgrade(self) -> str | None:
        if self.version > 1 or len(self.history) < 8:
            return None
        self.java.table.updateProperties().set("format-version", "2").commit()
        return "to version 2"

    def tidy(self) -> str:
        """Java's own upkeep, without a Spark job."""
        if self.rng.random() < 0.5:
            self.java.table.expireSnapshots().expireOlderThan(2**42).retainLast(1).commit()
            return "expire snapshots"
        self.java.table.updateProperties().set("write.metadata.metrics.default", self.rng.choice(_MODES)).commit()
        return "metrics"

    def compact_by_java(self) -> str | None:
        if self.lost_keys(self.schema) or not self.files():
            return None
        self.session.sql(
            f"call lake.system.rewrite_data_files(table => '{self.name}', options => map('rewrite-all', 'true'))"
        ).collect()
        return "all"

    def compact(self) -> str:
        told, compactor = self.compactor()
        outcome = compactor.compact_table(self.name)
        assert outcome.kind in (Kind.COMPACTED, Kind.HEALTHY), (outcome.sentence, self.seed, self.history)
        return f"{told}: {outcome.sentence}"

    def compact_meanwhile(self) -> str | None:
        """Somebody else writes between plan and commit."""
        told, compactor = self.compactor()
        plan = compactor.plan_table(self.name)
        other = self.rng.choice([self.append, self.delete_equal, self.delete_positions, self.drop_files])
        meanwhile = other()
        self.java.table.refresh()
        if plan.empty:
            return meanwhile
        outcome = racing.apply_as_planned(compactor, plan)
        assert outcome.kind in (Kind.COMPACTED, Kind.CONFLICT), (outcome.sentence, self.seed, self.history)
        if other == self.append:
            assert outcome.kind is Kind.COMPACTED, (outcome.sentence, self.seed, self.history)
        return f"{told} while {other.__name__} {meanwhile}: {outcome.sentence}"

    def compactor(self) -> tuple[str, Compactor]:
        strategy = self.rng.choice(["small-files", "full", "delete-files"])
        options: dict[str, Any] = {
            "verify": self.rng.choice(["checksum", "deep"]),
            "copy-row-groups": self.rng.choice(["auto", "always"]),  # files are so small that only `always` copies
        }
        if strategy == "small-files":
            options["min-input-files"] = 2
        if self.rng.random() < 0.4:
            options["rewrite-all"] = True
        if self.rng.random() < 0.3:
            options["keep-spec"] = True
        if self.rng.random() < 0.2:
            options["target-file-size-bytes"] = 4000
        if self.rng.random() < 0.25 and self.model.rows:
            options["where"] = self.rng.choice(["p = 'a'", f"k <= {self.rng.choice(list(self.model.rows))}"])
        return f"{strategy} {options}", Compactor(self.catalog, strategy=strategy, options=options, engine="inline")


_PROMOTIONS: dict[type, types.IcebergType] = {
    types.IntegerType: types.LongType(),
    types.FloatType: types.DoubleType(),
    types.DecimalType: types.DecimalType(20, 2),
}
_MODES = ("none", "counts", "truncate(2)", "truncate(16)", "full")
STEPS_BY_WEIGHT = {
    "append": 26, "delete_positions": 12, "delete_equal": 14, "upsert": 6, "delete_by_spark": 2, "drop_files": 2,
    "evolve_schema": 16, "evolve_spec": 5, "set_order": 2, "upgrade": 20, "tidy": 2, "compact": 22,
    "compact_meanwhile": 8, "compact_by_java": 2,
}  # fmt: skip


def _matches(row: table_model.Row, wanted: list[table_model.Row]) -> bool:
    return any(all(row.get(field_id) == value for field_id, value in each.items()) for each in wanted)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_life(java: SparkSession, catalog: Catalog, seed: int) -> None:
    life = Life(java, catalog, seed)
    for _ in range(STEPS):
        life.step()
        life.check()
    told = " ".join(life.history)
    assert "became" in told  # something was compacted

"""Compacts the tables of a small lake from Python: health, plan, run, proof, undo."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from iceberg_compaction import CheckVerdict, CompactionError, Compactor, Event, Kind, Strategy, load_plan, save_plan


def make_lake(folder: Path) -> SqlCatalog:
    """A catalog in a file, and two tables with many small files, as streaming writers leave them."""
    folder.mkdir(parents=True)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    catalog.create_namespace("shop")
    schema = pa.schema([("id", pa.int64()), ("city", pa.string())])
    for name in ("orders", "visits"):
        table = catalog.create_table(f"shop.{name}", schema)
        for first in range(0, 1000, 100):
            rows = {"id": range(first, first + 100), "city": [f"city {n % 7}" for n in range(100)]}
            table.append(pa.table(rows, schema=schema))
    return catalog


def show(event: Event) -> None:
    if event.kind == "committed":
        print(f"  {event.table}: snapshot {event.snapshot_id} is committed")


def main(engine: str, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    catalog = make_lake(folder)
    compactor = Compactor(
        catalog,
        strategy=Strategy.FULL,
        target_file_size="64MB",
        engine=engine,
        state=folder / "runs.db",  # the history of runs; with it, a killed run is cleaned up by the next one
        on_event=show,
    )
    with compactor:  # one engine for all tables
        for name in compactor.list_tables("shop.*"):
            health = compactor.inspect_table(name)
            print(f"{name}: score {health.score}, {health.small_files} of {health.data_files} files are small")

        print("\nA plan is a value: look at it, save it, apply it later.")
        plan = compactor.plan_table("shop.orders")
        print(f"  {plan.sentence}")
        save_plan(plan, folder / "plan.json")
        outcome = compactor.apply(load_plan(folder / "plan.json"))
        print(f"  {outcome.kind.value}: {outcome.sentence}")
        assert outcome.kind is Kind.COMPACTED
        assert outcome.proof is not None
        print(f"  {outcome.proof.sentence}")

        print("\nOr all at once:")
        outcome = compactor.compact_table("shop.visits")
        print(f"  {outcome.kind.value}: {outcome.sentence}")
        assert compactor.compact_table("shop.visits").kind is Kind.HEALTHY

        print("\nAny run can be checked again, and undone:")
        checked = compactor.verify(outcome.run_id)
        assert checked.verdict is CheckVerdict.PROVED, checked.sentence
        print(f"  {checked.sentence}")
        print(f"  {compactor.undo(outcome.run_id).sentence}")

        print("\nErrors are one sentence:")
        try:
            compactor.compact_table("shop.order")
        except CompactionError as error:
            print(f"  {error}")

        print("\nThe history:")
        for record in compactor.history("shop.*"):
            print(f"  {record.table}: {record.outcome.kind.value}, {record.outcome.seconds:.1f} s")
    catalog.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="spark", choices=("spark", "inline"), help="inline needs no Java")
    parser.add_argument("--folder", default="work", type=Path, help="where the lake is made; it is replaced")
    given = parser.parse_args()
    main(given.engine, given.folder.absolute())

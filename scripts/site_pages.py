"""Fills pages of the site from the code while `make docs` builds it, so that reference and code cannot differ. A page
says where: `<!-- options: run -->` becomes the options of a verb, `<!-- options: run Catalog -->` one panel of them,
`<!-- library -->` the public names of the package, `<!-- decisions -->` the list of decisions. MkDocs calls
`on_page_markdown`."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from typing import Any

import typer.main

import iceberg_compaction
from iceberg_compaction.interfaces.cli.app import app

# Panels that several verbs have: their options are shown once.
SHARED = {"Catalog": "[catalog options](#catalog-options)", "Console": "[console options](#console-options)"}
OWN = "Options"
DOCS = Path(__file__).resolve().parents[1] / "docs"
_MARK = re.compile(r"^<!-- (?:(library|decisions)|options: (\w+)(?: ([\w ]+))?) -->$", re.MULTILINE)
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARKUP = re.compile(r"\[/?[a-z ]*\]")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page, with generated parts; commands without the prompt, so that a copied block can be pasted."""
    markdown = _MARK.sub(lambda mark: _generated(*mark.groups()), markdown)
    return _CONSOLE.sub(lambda block: f"```bash\n{_without_prompts(block[1])}```", markdown)


def _without_prompts(commands: str) -> str:
    return re.sub(r"^\$ ", "", commands, flags=re.MULTILINE)


def _generated(kind: str | None, verb: str, panel: str | None) -> str:
    if kind == "library":
        return "\n\n".join(f"::: {name}" for name in public_names())
    if kind == "decisions":
        return "\n".join(decisions())
    panels = options_of(verb)
    if panel is not None:
        return _table(panels[panel])
    own = [
        f"**{title}**\n\n{_table(rows)}"
        for title, rows in sorted(panels.items(), key=_own_first)
        if title not in SHARED
    ]
    shared = [link for title, link in SHARED.items() if title in panels]
    return "\n\n".join([*own, f"Also: {', '.join(shared)}."] if shared else own)


def options_of(verb: str) -> dict[str, list[str]]:
    """The options of a verb as rows of tables, by panel of its help."""
    panels: dict[str, list[str]] = {}
    for parameter in typer.main.get_command(app).commands[verb].params:  # type: ignore[attr-defined]
        if not getattr(parameter, "hidden", False):
            panel = getattr(parameter, "rich_help_panel", None) or OWN
            panels.setdefault(panel, []).append(f"| {_names(parameter)} | {_meaning(parameter)} |")
    return panels


def _own_first(panel: tuple[str, list[str]]) -> bool:
    return panel[0] != OWN


def _table(rows: list[str]) -> str:
    return "\n".join(["| Option | Meaning |", "|---|---|", *rows])


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"<code>{parameter.metavar or parameter.name}</code>"
    metavar = "" if parameter.is_flag or parameter.count else f" {_metavar(parameter)}"
    names = [*parameter.opts, *parameter.secondary_opts]
    spelled = (f"{name}{metavar if name.startswith('--') else ''}" for name in names)
    return ", ".join(f"<code>{name.replace('|', '&#124;')}</code>" for name in spelled)


def _metavar(parameter: Any) -> str:
    kind = parameter.type_descriptor.annotation
    if parameter.metavar or not (isinstance(kind, type) and issubclass(kind, Enum)):
        return str(parameter.metavar or "TEXT")
    return "|".join(str(choice.value) for choice in kind)


def _meaning(parameter: Any) -> str:
    text = _MARKUP.sub("", parameter.help or "").strip()
    extras = []
    default = getattr(parameter.default, "value", parameter.default)
    if default not in (None, "", False, True, 0, [], ()) and "default" not in text and not callable(default):
        extras.append(f"default `{default}`")
    if getattr(parameter, "envvar", None):
        extras.append(f"variable `{parameter.envvar}`")
    if parameter.required:
        extras.append("required")
    sentence = f"{text.rstrip('.')} ({'; '.join(extras)})." if extras else text
    return sentence.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


def public_names() -> list[str]:
    """The full names of everything in `__all__`, in its order."""
    homes = iceberg_compaction._HOMES
    names = [name for name in iceberg_compaction.__all__ if not name.startswith("__")]
    return [f"iceberg_compaction.{homes[name]}.{name}" for name in names]


def decisions() -> list[str]:
    """A link to each decision, by number."""
    pages = sorted((DOCS / "adr").glob("0*.md"))
    titles = (page.read_text(encoding="utf-8").splitlines()[0].lstrip("# ") for page in pages)
    return [f"- [{title}]({page.name})" for title, page in zip(titles, pages, strict=True)]

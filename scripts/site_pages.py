"""Fills pages of the site from the code while `make docs` builds it, so that reference and code cannot differ. A page
says where: `<!-- options: run -->` becomes the options of a verb, `<!-- options: run Catalog -->` one panel of them,
`<!-- library -->` the public names of the package, `<!-- decisions -->` the list of decisions, `<!-- rest -->` the
requests of the service, `<!-- service-settings -->` its settings. MkDocs calls `on_page_markdown`."""

from __future__ import annotations

import inspect
import re
import types
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import typer.main
from pydantic import BaseModel

import iceberg_compaction
from iceberg_compaction.interfaces.cli.app import app
from iceberg_compaction.interfaces.service import service_house, service_settings
from iceberg_compaction.interfaces.service.api import app_factory
from iceberg_compaction.interfaces.service.service_settings import ServiceSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

# Panels that several verbs have: their options are shown once.
SHARED = {"Catalog": "[catalog options](#catalog-options)", "Console": "[console options](#console-options)"}
OWN = "Options"
_NO_MEMBERS = ("    options:", "      members: false")
DOCS = Path(__file__).resolve().parents[1] / "docs"
_MARK = re.compile(
    r"^<!-- (?:(library|decisions|rest|service-settings)|options: ([\w-]+)(?: ([\w ]+))?) -->$", re.MULTILINE
)
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
        return "\n\n".join(map(_library_entry, public_names()))
    if kind == "decisions":
        return "\n".join(decisions())
    if kind == "rest":
        return "\n\n".join(requests_of_service())
    if kind == "service-settings":
        return "\n\n".join(settings_of_service(ServiceSettings, "", set()))
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


def requests_of_service() -> Iterator[str]:
    """A table for each group of requests."""
    house = service_house.build(service_settings.load({"store": "memory://"}, None, {"CATALOG_URI": "sqlite:///x.db"}))
    document = app_factory.make_app(house).openapi()
    groups: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, request in methods.items():
            text = " ".join(request.get("description", "").split()).replace("|", "\\|")
            row = f"| `{method.upper()} {path}` | {request['summary']}. {text} |"
            groups.setdefault((request.get("tags") or ["probes"])[0], []).append(row)
    for group, rows in groups.items():
        yield "\n".join([f"## {group.capitalize()}", "", "| Request | What it does |", "|---|---|", *rows])


def settings_of_service(model: type[BaseModel], name: str, seen: set[type[BaseModel]]) -> Iterator[str]:
    """A table of the settings, then one for each part of them."""
    seen.add(model)
    rows, parts = [], []
    for field_name, info in model.model_fields.items():
        inner = next((each for each in _models_in(info.annotation) if each not in seen), None)
        if inner is not None:
            parts.append((inner, field_name))
        default = "" if info.is_required() or info.default in (None, {}, ()) or inner else f"`{_plain(info.default)}`"
        rows.append(f"| `{field_name}` | {info.description or ('see below' if inner else '')} | {default} |")
    title = f"**`{name}`**" if name else "**The file**"
    yield "\n".join([title, "", "| Setting | Meaning | Default |", "|---|---|---|", *rows])
    for inner, field_name in parts:
        yield from settings_of_service(inner, f"{name}.{field_name}".strip("."), seen)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from _models_in(each)


def _plain(value: Any) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    return ", ".join(map(_plain, value)) if isinstance(value, list | tuple) else f"{value}"


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
    return _cell(sentence)


def public_names() -> list[str]:
    """The names of everything that is public, classes and functions."""
    return [name for name in iceberg_compaction.__all__ if not name.startswith("__")]


def _library_entry(name: str) -> str:
    """One name: its docstring and signature, and for a value its fields as a table."""
    value = getattr(iceberg_compaction, name)
    directive = f"::: iceberg_compaction.{iceberg_compaction._HOMES[name]}.{name}"
    if isinstance(value, type) and issubclass(value, Enum):
        rows = [f"| `{name}.{member.name}` | `{member.value}` |" for member in value]
        return "\n".join([directive, *_NO_MEMBERS, "", "| Member | Value |", "|---|---|", *rows])
    if isinstance(value, type) and issubclass(value, BaseModel):
        return "\n".join([directive, *_NO_MEMBERS, "", "| Field | Type | Meaning |", "|---|---|---|", *_fields(value)])
    return directive


def _fields(value: type[BaseModel]) -> Iterator[str]:
    remarks = _remarks(value)
    for name, field in value.model_fields.items():
        words = field.description or remarks.get(name, "")
        # A default that is made of other fields has no value of its own.
        made = field.default_factory_takes_validated_data
        default = None if field.is_required() or made else field.get_default(call_default_factory=True)
        if isinstance(default, str | int | float) and default not in ("", 0) and "default" not in words:
            words = "; ".join(filter(None, (words, f"default `{_plain(default)}`")))
        yield f"| `{name}` | <code>{_kind(field.annotation)}</code> | {_cell(words)} |"
    for name, attribute in vars(value).items():
        if isinstance(attribute, property) and not name.startswith("_"):
            kind = inspect.get_annotations(attribute.fget).get("return", "")  # type: ignore[arg-type]
            words = " ".join((attribute.__doc__ or "").split())
            yield f"| `{name}` | <code>{_cell(str(kind))}</code> | {_cell(words or 'computed')} |"


def _remarks(value: type[BaseModel]) -> dict[str, str]:
    """The comments behind the fields of a class and of those that it inherits from."""
    homes = [home for home in value.__mro__ if home.__module__.startswith("iceberg_compaction")]
    sources = "".join(inspect.getsource(home) for home in reversed(homes))
    return dict(re.findall(r"^    (\w+): .*  # (.*)$", sources, re.MULTILINE))


def _kind(annotation: Any) -> str:
    """A type as people write it."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(arguments[0])
    if origin in (Union, types.UnionType):
        return "&#124;".join(f" {_kind(argument)} " for argument in arguments).strip()
    if origin is Literal:
        return ", ".join(map(repr, arguments))
    if origin is not None:
        return f"{origin.__name__}[{', '.join(map(_kind, arguments))}]"
    return {types.NoneType: "None", Ellipsis: "..."}.get(annotation) or getattr(annotation, "__name__", str(annotation))


def _plain(default: Any) -> str:
    default = getattr(default, "value", default)
    return default if isinstance(default, str) and default else repr(default)


def _cell(text: str) -> str:
    return text.replace("|", "&#124;").replace("<", "&lt;").replace("*", "&#42;")


def decisions() -> list[str]:
    """A link to each decision, by number."""
    pages = sorted((DOCS / "adr").glob("0*.md"))
    titles = (page.read_text(encoding="utf-8").splitlines()[0].lstrip("# ") for page in pages)
    return [f"- [{title}]({page.name})" for title, page in zip(titles, pages, strict=True)]

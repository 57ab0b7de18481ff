"""`iceberg-compact from-procedure`: a call of one of Iceberg's procedures as our command, shown or performed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from iceberg_compaction.interfaces.cli import commands, exits, logs, options, spread

if TYPE_CHECKING:
    from iceberg_compaction.interfaces.procedures.our_command import OurCommand

_WITH_ENGINE = ("run", "deletes", "statistics")
_SPARK_CATALOG = "spark_catalog"  # Spark's own name for the catalog of the session


@dataclass(frozen=True, slots=True, kw_only=True)
class FromProcedureOptions:
    """Whether the command is performed, and how."""

    run: Annotated[bool, typer.Option("--run", help="Perform the command instead of showing it.")] = False
    engine: options.Engine = "spark"
    state: options.State = None


@exits.reported
@spread.spread
def from_procedure(
    statement: Annotated[str, typer.Argument(metavar="STATEMENT", help="CALL catalog.system.procedure(...)")],
    catalog: options.CatalogOptions,
    how: FromProcedureOptions,
    console: options.ConsoleOptions,
) -> None:
    """Show the command that does what a call of an Iceberg procedure asks for; with --run, perform it. What differs is
    told, and what this program does not do is refused with the reason.

    The procedures are rewrite_data_files, rewrite_manifests, rewrite_position_delete_files, expire_snapshots,
    remove_orphan_files, compute_table_stats and compute_partition_stats, as in "CALL
    lake.system.rewrite_data_files(table => 'shop.events')". `-` reads the statement from standard input.

    Examples:

        iceberg-compact from-procedure - < call.sql

        iceberg-compact from-procedure - --run --catalog-uri sqlite:///lake/catalog.db < call.sql
    """
    logs.configure(console)
    from iceberg_compaction.interfaces import documents, wiring
    from iceberg_compaction.interfaces.procedures import call_syntax, our_command

    text = typer.get_text_stream("stdin").read() if statement == "-" else statement
    call = call_syntax.parse(text)
    ours = our_command.translate(call, wiring.now_ms())
    named = _catalog_words(call.catalog, catalog)
    shown = commands.line(ours.verb, *ours.words, *named)
    for note in ours.notes:
        logs.write(note, source="cli", prefix="note: ")
    if how.run:
        raise typer.Exit(_perform(ours, named, catalog, how, console))
    if console.output is options.Format.JSON:
        content = {"kind": "command", "verb": ours.verb, "words": [*ours.words, *named]}
        typer.echo(documents.text({**content, "command": shown, "notes": list(ours.notes)}), nl=False)
    else:
        typer.echo(shown)


def _catalog_words(name: str | None, catalog: options.CatalogOptions) -> list[str]:
    """The catalog of the statement, where no option names one."""
    given = (catalog.catalog_name, catalog.catalog_uri, catalog.catalog_type, catalog.warehouse, catalog.spark_catalog)
    if name is None or any(given) or catalog.catalog_property:
        return []
    if any(each.startswith(f"spark.sql.catalog.{name}") for each in catalog.conf or ()):
        return ["--spark-catalog", name]
    return [] if name == _SPARK_CATALOG else ["--catalog-name", name]


def _perform(
    ours: OurCommand,
    named: list[str],
    catalog: options.CatalogOptions,
    how: FromProcedureOptions,
    console: options.ConsoleOptions,
) -> int:
    """The exit code of the command, which runs in this process with all options that were given."""
    from iceberg_compaction.interfaces.cli import app

    words = [ours.verb, *ours.words, *named, *_words(catalog)]
    words += [] if how.state is None else ["--store", str(how.state)]
    words += ["--engine", how.engine] if ours.verb in _WITH_ENGINE else []
    words += _words(console)
    code = typer.main.get_command(app.app).main(words, prog_name=commands.PROGRAM, standalone_mode=False)
    return code if isinstance(code, int) else exits.DONE


def _words(group: Any) -> list[str]:
    """The options of a group that differ from their defaults, as words of a command line."""
    words: list[str] = []
    for each in fields(group):
        value, flag = getattr(group, each.name), f"--{each.name.replace('_', '-')}"
        if value == each.default or value is None:
            continue
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag.removeprefix('--')}")
        elif each.name == "verbose":
            words += ["-v"] * value
        else:
            values = value if isinstance(value, list | tuple) else [value]
            words += [word for one in values for word in (flag, str(getattr(one, "value", one)))]
    return words

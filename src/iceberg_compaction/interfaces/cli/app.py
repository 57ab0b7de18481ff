"""The application: its verbs, and the rule that flags without a verb mean `run`, which is how a scheduler calls it.
Verbs import what they need when they are called, so that `--help` answers at once."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from iceberg_compaction import errors
from iceberg_compaction.interfaces.cli import exits, lean_start
from iceberg_compaction.interfaces.cli.remote import server_flag
from iceberg_compaction.interfaces.cli.screens import help_screen, usage
from iceberg_compaction.interfaces.cli.verbs.apply import apply
from iceberg_compaction.interfaces.cli.verbs.cache import cache
from iceberg_compaction.interfaces.cli.verbs.cancel import cancel
from iceberg_compaction.interfaces.cli.verbs.demo import demo
from iceberg_compaction.interfaces.cli.verbs.doctor import doctor
from iceberg_compaction.interfaces.cli.verbs.explain import explain
from iceberg_compaction.interfaces.cli.verbs.history import history
from iceberg_compaction.interfaces.cli.verbs.plan import plan
from iceberg_compaction.interfaces.cli.verbs.policy import policy
from iceberg_compaction.interfaces.cli.verbs.porting.from_procedure import from_procedure
from iceberg_compaction.interfaces.cli.verbs.report import report
from iceberg_compaction.interfaces.cli.verbs.resume import resume
from iceberg_compaction.interfaces.cli.verbs.run import run
from iceberg_compaction.interfaces.cli.verbs.service.serve import serve
from iceberg_compaction.interfaces.cli.verbs.token import token
from iceberg_compaction.interfaces.cli.verbs.undo import undo
from iceberg_compaction.interfaces.cli.verbs.upkeep.deletes import deletes
from iceberg_compaction.interfaces.cli.verbs.upkeep.expire import expire
from iceberg_compaction.interfaces.cli.verbs.upkeep.maintain import maintain
from iceberg_compaction.interfaces.cli.verbs.upkeep.manifests import manifests
from iceberg_compaction.interfaces.cli.verbs.upkeep.orphans import orphans
from iceberg_compaction.interfaces.cli.verbs.upkeep.repair import repair
from iceberg_compaction.interfaces.cli.verbs.upkeep.statistics import statistics
from iceberg_compaction.interfaces.cli.verbs.upkeep.tags import tags
from iceberg_compaction.interfaces.cli.verbs.upkeep.ttl import ttl
from iceberg_compaction.interfaces.cli.verbs.usage_export import usage_of_tenants
from iceberg_compaction.interfaces.cli.verbs.verify import verify
from iceberg_compaction.interfaces.cli.verbs.watch import watch
from iceberg_compaction.version import __version__

_OWN_FLAGS = ("--help", "-h", "--version", "--install-completion", "--show-completion")


class _RunByDefault(TyperGroup):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0].startswith("-") and args[0] not in _OWN_FLAGS:
            args = ["run", *args]
        if args and args[0] in self.commands:
            # Flags of the group, which are not given: typer imports pydantic for each.
            self.params, self.add_help_option = [], False
        if not args and not ctx.resilient_parsing:  # a shell that completes a verb has none yet
            typer.echo(ctx.get_help())
            raise typer.Exit(exits.USAGE)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(help_screen.text(self, ctx))

    def main(self, args: Any = None, prog_name: Any = None, *, standalone_mode: bool = True, **more: Any) -> Any:  # type: ignore[override]
        """As typer's, but wrong usage is told in the same form as other errors, and `--server` leads to other verbs."""
        words = list(sys.argv[1:] if args is None else args)
        try:
            if any(word.partition("=")[0] == server_flag.FLAG for word in words):
                code = _perform_elsewhere(words, prog_name)
            else:
                code = super().main(args, prog_name, standalone_mode=False, **more)
        except usage.USAGE_ERROR as error:
            if not standalone_mode:
                raise
            sentence = usage.complain(error)
            if usage.wants_json(args or ()):
                exits.print_document(errors.ConfigError(sentence))
            code = exits.USAGE
        if standalone_mode:
            sys.exit(code if isinstance(code, int) else exits.DONE)
        return code


def _perform_elsewhere(words: list[str], prog_name: Any) -> Any:
    """The command of a service."""
    try:
        url, rest = server_flag.take(words)
    except errors.ConfigError as error:
        exits.complain(error)
        return exits.USAGE
    assert url is not None
    from iceberg_compaction.interfaces.cli.remote import remote_app

    command = typer.main.get_command(remote_app.make_app(url))
    return command.main(rest, f"{prog_name or 'iceberg-compact'} --server {url}", standalone_mode=False)


app = typer.Typer(
    cls=_RunByDefault,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
for _verb in (
    doctor,
    plan,
    explain,
    policy,
    apply,
    run,
    resume,
    maintain,
    manifests,
    ttl,
    orphans,
    expire,
    tags,
    statistics,
    repair,
    deletes,
    history,
    report,
    watch,
    cancel,
    verify,
    undo,
    token,
    cache,
    from_procedure,
    serve,
    demo,
):
    app.command(cls=help_screen.VerbCommand)(_verb)
app.command("usage", cls=help_screen.VerbCommand)(usage_of_tenants)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"iceberg-compact {__version__}")
        raise typer.Exit


@app.callback()
def iceberg_compact(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Keeps Apache Iceberg tables fast and cheap, and proves that no row was lost or revived.

    Flags without a command mean `run`:

        iceberg-compact --catalog-uri=URI --table=NAME --strategy=small-files

    With `--server URL` a service does the work: iceberg-compact --server URL run --table NAME

    Exit codes: 0 done or nothing to do, 1 failed, 2 wrong usage, 3 sick or work to do (--exit-code), 130 cancelled.
    """


@app.command("version", cls=help_screen.VerbCommand)
def show_version() -> None:
    """Show the version."""
    _version(True)


def main() -> None:
    """The entry point of the command `iceberg-compact`."""
    lean_start.search_garbage_rarely()
    app(prog_name="iceberg-compact", args=sys.argv[1:])

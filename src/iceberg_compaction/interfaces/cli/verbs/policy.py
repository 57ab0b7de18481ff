"""`iceberg-compact policy`: policy files checked, shown, compared, begun, and described for editors."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path  # noqa: TC003 - typer reads the annotation
from typing import TYPE_CHECKING, Annotated

import typer

from iceberg_compaction.interfaces.cli import exits, lean_start, logs, options, spread

if TYPE_CHECKING:
    from collections.abc import Sequence


class PolicyAction(str, Enum):
    """What to do."""

    CHECK = "check"
    SHOW = "show"
    DIFF = "diff"
    INIT = "init"
    SCHEMA = "schema"


_NEEDS = {
    PolicyAction.CHECK: (1, "a policy file: iceberg-compact policy check FILE"),
    PolicyAction.SHOW: (1, "a table: iceberg-compact policy show TABLE"),
    PolicyAction.DIFF: (2, "two policy files: iceberg-compact policy diff OLD NEW"),
    PolicyAction.INIT: (0, "nothing else: iceberg-compact policy init"),
    PolicyAction.SCHEMA: (0, "nothing else: iceberg-compact policy schema"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyVerbOptions:
    """The file to follow, and the one to write."""

    policy_file: options.PolicyFile = None
    environment: options.Environment = None
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="init: write to this new file, not to standard output.")
    ] = None


@exits.reported
@spread.spread
def policy(
    action: Annotated[
        PolicyAction, typer.Argument(metavar="ACTION", help="check, show, diff, init or schema.", show_default=False)
    ],
    catalog: options.CatalogOptions,
    console: options.ConsoleOptions,
    how: PolicyVerbOptions,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="A file (check), a table (show), two files (diff).", show_default=False),
    ] = None,
) -> None:
    """Check, show, compare or begin policy files. `show` is about the policy of a table, `init` begins a file from what
    the lake looks like, `schema` prints the JSON schema for editors.

    Examples:

        iceberg-compact policy check policy.yaml

        iceberg-compact policy show shop.events --policy policy.yaml --catalog-uri sqlite:///lake/catalog.db

        iceberg-compact policy diff policy.yaml new-policy.yaml

        iceberg-compact policy init --catalog-uri sqlite:///lake/catalog.db --out policy.yaml

        iceberg-compact policy schema
    """
    logs.configure(console)
    given = names or []
    count, words = _NEEDS[action]
    if len(given) != count:
        from iceberg_compaction import errors

        raise errors.ConfigError(f"policy {action.value} takes {words}.")
    match action:
        case PolicyAction.CHECK:
            _check(given[0], console)
        case PolicyAction.SHOW:
            _show(given[0], catalog, console, how)
        case PolicyAction.DIFF:
            _diff(given, console)
        case PolicyAction.INIT:
            _init(catalog, how)
        case PolicyAction.SCHEMA:
            from iceberg_compaction.policy import json_schema

            sys.stdout.write(json_schema.text())


def _check(file: str, console: options.ConsoleOptions) -> None:
    from iceberg_compaction.interfaces.cli import output
    from iceberg_compaction.policy import review, spelling

    reviewed = review.check(file, spelling.PolicySpellings())
    output.output(console.output).policy_review(reviewed)
    if not reviewed.ok:
        raise typer.Exit(exits.FAILED)


def _show(table: str, catalog: options.CatalogOptions, console: options.ConsoleOptions, how: PolicyVerbOptions) -> None:
    lean_start.spare_pandas()
    from iceberg_compaction.catalog import load_tables
    from iceberg_compaction.interfaces.cli import output
    from iceberg_compaction.interfaces.cli.fleet import catalog_request
    from iceberg_compaction.workflow import explain_table

    followed = options.PolicyOptions(policy_file=how.policy_file, environment=how.environment)
    chosen = catalog_request.make_policy(followed)
    opened = catalog_request.open_catalog(catalog)
    name = load_tables.full_name(opened, table, catalog.namespace)
    request = explain_table.ExplainRequest(table=name, source=chosen)
    output.output(console.output).effective_policy(explain_table.effective_policy(opened, request))


def _diff(files: Sequence[str], console: options.ConsoleOptions) -> None:
    from iceberg_compaction.interfaces.cli import output
    from iceberg_compaction.policy import review, spelling

    output.output(console.output).policy_comparison(review.compare(files[0], files[1], spelling.PolicySpellings()))


def _init(catalog: options.CatalogOptions, how: PolicyVerbOptions) -> None:
    lean_start.spare_pandas()
    from iceberg_compaction import errors
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli.fleet import catalog_request
    from iceberg_compaction.model.policies import Policy
    from iceberg_compaction.policy import draft_policy
    from iceberg_compaction.workflow import diagnose, fleet

    if how.out is not None and how.out.exists():
        raise errors.ConfigError(f"{how.out} is there already; choose another file, or remove it.")
    opened = catalog_request.open_catalog(catalog)
    targets = catalog_request.find_targets(opened, [catalog_request.EVERY_TABLE], catalog.namespace)
    look = diagnose.HealthLook(cache=wiring.manifest_cache())
    looks = fleet.diagnose_all(
        opened, targets.names, lambda name: diagnose.diagnose(opened, name, Policy(), look), parallel=4
    )
    text = draft_policy.text(looks)
    if how.out is None:
        sys.stdout.write(text)
        return
    try:
        how.out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise errors.ConfigError(f"{how.out} cannot be written: {error.strerror or error}.") from None
    typer.echo(f"Wrote {how.out}; `iceberg-compact policy check {how.out}` checks it.", err=True)

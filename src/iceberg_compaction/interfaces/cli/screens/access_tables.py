"""How tokens of the service, and the usage of tenants, look to people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from iceberg_compaction.interfaces import run_words, wiring
from iceberg_compaction.interfaces.cli.screens.grid import GridColumn, figures, grid
from iceberg_compaction.model import byte_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from iceberg_compaction.model.access_token import AccessToken, NewToken
    from iceberg_compaction.model.usage_row import UsageRow


def tokens(listed: Sequence[AccessToken]) -> Iterator[RenderableType]:
    """A line for each token."""
    if not listed:
        yield "There is no token; `iceberg-compact token create NAME --role ROLE` makes one."
        return
    now_ms = wiring.now_ms()
    table = grid("Name", "Id", "Role", GridColumn(name="Tenants", drop=2), "State", GridColumn(name="Made", drop=1))
    for each in listed:
        table.add_row(
            escape(each.name),
            each.token_id,
            each.role.value,
            "all" if each.tenants is None else escape(", ".join(each.tenants)),
            _state(each, now_ms),
            run_words.moment(each.created_ms),
        )
    yield table


def new_token(made: NewToken) -> Iterator[RenderableType]:
    """The secret on a line of its own, to be copied."""
    token = made.token
    scope = "all tables" if token.tenants is None else "tables of " + escape(", ".join(token.tenants))
    end = "never ends" if token.expires_ms is None else f"ends on {run_words.moment(token.expires_ms)} UTC"
    yield f"Token {token.token_id} for {escape(token.name)}: {token.role.value} of {scope}; it {end}."
    yield "Copy it now, it is not shown again:"
    yield ""
    yield made.secret


def usage(rows: Sequence[UsageRow], month: str) -> Iterator[RenderableType]:
    """A line for each tenant."""
    if not rows:
        yield f"No run began in {month}."
        return
    table = grid(
        "Tenant",
        figures("Runs"),
        figures("Failed", drop=2),
        figures("Read", drop=1),
        figures("Written", drop=4),
        figures("Requests", drop=3),
        figures("Compute s"),
        figures("Cost"),
    )
    table.title = f"Usage in {month}"
    for row in rows:
        table.add_row(
            "(none)" if row.tenant is None else escape(row.tenant),
            f"{row.runs:,}",
            f"{row.failed:,}",
            byte_size.format_size(row.bytes_read),
            byte_size.format_size(row.bytes_written),
            f"{row.requests:,}",
            f"{row.compute_seconds:,.1f}",
            f"${row.cost:,.4f}",
        )
    yield table


def _state(token: AccessToken, now_ms: int) -> str:
    if token.revoked_ms is not None:
        return "[red]revoked[/]"
    if not token.holds(now_ms):
        return "[yellow]over[/]"
    return "never ends" if token.expires_ms is None else f"until {run_words.moment(token.expires_ms)}"

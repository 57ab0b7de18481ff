"""`iceberg-compact token`: tokens for the service, made, listed and revoked in its run store."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from iceberg_compaction.interfaces.cli import exits, logs, options, spread

if TYPE_CHECKING:
    from iceberg_compaction.model.access_token import NewToken
    from iceberg_compaction.record.service.access_tokens import TokenBook


class TokenAction(str, Enum):
    """What to do."""

    CREATE = "create"
    LIST = "list"
    REVOKE = "revoke"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOptions:
    """What a new token may do."""

    role: Annotated[str, typer.Option(metavar="ROLE", help="create: viewer, operator or admin.")] = "viewer"
    tenant: Annotated[
        list[str] | None,
        typer.Option("--tenant", metavar="NAME", help="create: only for tables of this tenant; repeatable."),
    ] = None
    expires: Annotated[
        str, typer.Option(metavar="DURATION", help="create: how long it holds, such as 12h or 30d, or never.")
    ] = "90d"


@exits.reported
@spread.spread
def token(
    action: Annotated[
        TokenAction, typer.Argument(metavar="ACTION", help="create, list or revoke.", show_default=False)
    ],
    console: options.ConsoleOptions,
    how: TokenOptions,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Whom it is for (create), or the id of a token (revoke)."),
    ] = None,
    state: options.State = None,
) -> None:
    """Make, list or revoke tokens for the service. A token is shown once, when it is made; the store keeps its hash.

    Examples:

        iceberg-compact token create airflow --role operator --expires 90d

        iceberg-compact token create shop-dashboards --role viewer --tenant shop

        iceberg-compact token list

        iceberg-compact token revoke 4f0c9a1b2c3d
    """
    logs.configure(console)
    from iceberg_compaction import errors
    from iceberg_compaction.interfaces.cli import output

    if (action is TokenAction.LIST) != (name is None):
        words = {
            TokenAction.CREATE: "a name: iceberg-compact token create NAME",
            TokenAction.LIST: "nothing else: iceberg-compact token list",
            TokenAction.REVOKE: "the id of a token: iceberg-compact token revoke ID",
        }
        raise errors.ConfigError(f"token {action.value} takes {words[action]}.")
    screen = output.output(console.output)
    if action is TokenAction.LIST:
        screen.tokens(_book(state, to_write=False).tokens())
    elif action is TokenAction.REVOKE:
        screen.tokens([_book(state).revoke(str(name))])
    else:
        book = _book(state)
        made = _create(book, str(name), how)
        screen.summary(f"Services with the run store {book.entries} know the new token from now on.")
        screen.new_token(made)


def _create(book: TokenBook, name: str, how: TokenOptions) -> NewToken:
    from iceberg_compaction import errors
    from iceberg_compaction.model import durations
    from iceberg_compaction.model.principal import Role

    roles = {role.value: role for role in Role}
    if how.role not in roles:
        raise errors.ConfigError(f"{how.role!r} is no role; choose one of {', '.join(roles)}.")
    never = how.expires.strip().lower() == "never"
    return book.create(
        name,
        roles[how.role],
        tenants=tuple(how.tenant) if how.tenant else None,
        seconds=None if never else durations.parse_seconds(how.expires),
        created_by="the command line",
    )


def _book(state: str | None, *, to_write: bool = True) -> TokenBook:
    from iceberg_compaction import errors
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.record.service.access_tokens import TokenBook

    store = wiring.store_to_write(state) if to_write else wiring.store_to_read(state)
    if store is None:
        raise errors.ConfigError("Tokens need a run store; name it with --store or STORE_URL.")
    return TokenBook(entries=store.entries, clock=wiring.now_ms, secret=wiring.new_secret)

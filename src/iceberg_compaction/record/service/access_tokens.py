"""Tokens of the service in the run store, by the hash of their secret: whoever reads the store can use none of them.
Secrets are 256 bits of chance, so that a plain SHA-256 is enough: there is nothing to guess."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pydantic

from iceberg_compaction import errors
from iceberg_compaction.model import validation_words
from iceberg_compaction.model.access_token import AccessToken, NewToken
from iceberg_compaction.record.entries import keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.model.principal import Role
    from iceberg_compaction.record.entries.door import StoreEntries, StoreEntry

PREFIX = "ict_"  # of a secret, so that scanners of repositories recognise it
_TOKEN, _BY_ID = "service-token", "service-token-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBook:
    """The tokens of a store. `secret` makes 256 bits of chance as text, `clock` tells the time."""

    entries: StoreEntries
    clock: Callable[[], int]
    secret: Callable[[], str]

    def create(
        self,
        name: str,
        role: Role,
        *,
        tenants: tuple[str, ...] | None = None,
        seconds: float | None = None,
        created_by: str = "",
    ) -> NewToken:
        """Make a token that holds for some seconds, or for ever."""
        now_ms = self.clock()
        secret = PREFIX + self.secret()
        digest = _digest(secret)
        try:
            token = AccessToken(
                token_id=digest[:12],
                name=name,
                role=role,
                tenants=tenants,
                created_ms=now_ms,
                created_by=created_by,
                expires_ms=None if seconds is None else now_ms + round(seconds * 1000),
            )
        except pydantic.ValidationError as error:
            raise errors.ConfigError(f"{name[:60]!r} cannot be the name of a token: {_reason(error)}.") from None
        self.entries.change(
            {keys.key(_TOKEN, digest): token.model_dump_json(), keys.key(_BY_ID, token.token_id): digest}
        )
        return NewToken(token=token, secret=secret)

    def find(self, secret: str) -> AccessToken | None:
        """The token of a secret, if it holds now."""
        key = keys.key(_TOKEN, _digest(secret))
        entry = self.entries.get([key]).get(key)
        token = None if entry is None else _parsed(entry)
        return token if token is not None and token.holds(self.clock()) else None

    def tokens(self) -> list[AccessToken]:
        """All of them, the newest first; also those that are over."""
        tokens = [token for entry in self.entries.scan(keys.prefix(_TOKEN)) if (token := _parsed(entry)) is not None]
        return sorted(tokens, key=lambda token: (-token.created_ms, token.token_id))

    def revoke(self, token_id: str) -> AccessToken:
        """End a token, given by its id. Again and again is the same. ConfigError: there is none."""
        by_id = keys.key(_BY_ID, token_id)
        while (entry := self._entry(by_id)) is not None and (token := _parsed(entry)) is not None:
            if token.revoked_ms is not None:
                return token
            revoked = token.model_copy(update={"revoked_ms": self.clock()})
            if self.entries.change({entry.key: revoked.model_dump_json()}, {entry.key: entry.version}):
                return revoked
        raise errors.ConfigError(f"There is no token with the id {token_id!r}; `iceberg-compact token list` shows all.")

    def _entry(self, by_id: str) -> StoreEntry | None:
        pointer = self.entries.get([by_id]).get(by_id)
        if pointer is None:
            return None
        key = keys.key(_TOKEN, pointer.value)
        return self.entries.get([key]).get(key)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _parsed(entry: StoreEntry) -> AccessToken | None:
    try:
        return AccessToken.model_validate_json(entry.value)
    except pydantic.ValidationError:
        return None


def _reason(error: pydantic.ValidationError) -> str:
    return validation_words.text(error.errors()[0]["msg"])

"""Recognises who asks, and says whether they may. Refusals do not tell whether a tenant, a table or a token exists."""

from __future__ import annotations

import base64
import binascii
import shlex
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.interfaces import run_stores, wiring
from iceberg_compaction.interfaces.service.access import rate_limits
from iceberg_compaction.interfaces.service.service_settings import LOOPBACK, AuthMode
from iceberg_compaction.model.principal import ANYBODY
from iceberg_compaction.record.service.access_tokens import PREFIX, TokenBook

if TYPE_CHECKING:
    from iceberg_compaction.interfaces.service.access.oidc import OidcProvider
    from iceberg_compaction.interfaces.service.service_house import ServiceHouse
    from iceberg_compaction.model.principal import Principal, Role

_KEPT_S = 5.0  # a token that was found counts for so long without another look; so a revoked one is over after that
_MOST_KEPT = 10_000
_LONGEST = 16_000  # characters of a header


@dataclass(slots=True, kw_only=True)
class Guard:
    """The door of one process of the service."""

    mode: AuthMode
    tokens: TokenBook
    limits: rate_limits.RateLimits
    oidc: OidcProvider | None = None
    is_fixed: bool = False  # the settings name the mode; else the first token that is made closes the door
    _kept: dict[str, tuple[float, Principal]] = field(default_factory=dict)
    _looked: float = 0.0  # when the store was last searched for a first token

    def principal(self, authorization: str | None, address: str) -> Principal:
        """Who sends this Authorization header: a bearer token, or one as the password of HTTP Basic.
        UnauthenticatedError: nobody that is known; TooManyError: they ask too often. A token that was never accepted
        here is counted before it is looked up, so that guesses do not cost the store more than that."""
        if self._is_open():
            self._count(f"address {address}")
            return ANYBODY
        secret = _secret(authorization)
        if secret is None or secret not in self._kept:
            self._count(f"address {address}")
        principal = self._find(secret)
        self._count(principal.token_id or principal.name)
        return principal

    def is_sure(self, authorization: str | None) -> bool:
        """Whether `principal` answers from memory, without the store or a provider."""
        now = time.monotonic()
        if self.mode is AuthMode.NONE:
            return self.is_fixed or now - self._looked <= _KEPT_S
        secret = _secret(authorization)
        return secret is None or now < self._kept.get(secret, (0.0, None))[0]

    def require(self, principal: Principal, role: Role) -> None:
        """ForbiddenError: the role is not enough."""
        if not principal.role.covers(role):
            raise errors.ForbiddenError(
                f"This needs the role {role.value}; {principal.name} has the role {principal.role.value}."
            )

    def _is_open(self) -> bool:
        """Whether nobody needs a token. A door that is closed stays so, also after its last token is over."""
        now = time.monotonic()
        if self.mode is AuthMode.NONE and not self.is_fixed and now - self._looked > _KEPT_S:
            self._looked = now
            if self.tokens.tokens():
                self.mode = AuthMode.TOKENS
        return self.mode is AuthMode.NONE

    def _count(self, client: str) -> None:
        if wait_s := self.limits.take(client):
            raise errors.TooManyError("There are too many requests; try again later.", retry_after_s=wait_s)

    def _find(self, secret: str | None) -> Principal:
        if secret is None:
            raise errors.UnauthenticatedError("A token is needed: Authorization: Bearer TOKEN.")
        now = time.monotonic()
        until, kept = self._kept.get(secret, (0.0, None))
        if kept is not None and now < until:
            return kept
        try:
            principal = self._look_up(secret)
        except errors.UnauthenticatedError:
            self._kept.pop(secret, None)
            raise
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[secret] = (now + _KEPT_S, principal)
        return principal

    def _look_up(self, secret: str) -> Principal:
        if secret.startswith(PREFIX):
            token = self.tokens.find(secret)
            if token is not None:
                return token.principal
        elif self.oidc is not None:
            return self.oidc.principal(secret)
        raise errors.UnauthenticatedError("The token is not accepted.")


def _secret(authorization: str | None) -> str | None:
    """The token in a header; None: there is none."""
    kind, _, rest = (authorization or "")[:_LONGEST].strip().partition(" ")
    rest = rest.strip()
    match kind.lower():
        case "bearer":
            return rest or None
        case "basic":
            try:
                text = base64.b64decode(rest, validate=True).decode()
            except (binascii.Error, ValueError):
                return None
            return text.partition(":")[2] or None
        case _:
            return None


def token_book(house: ServiceHouse) -> TokenBook:
    """The tokens of a service."""
    return TokenBook(entries=house.store.entries, clock=house.clock, secret=wiring.new_secret)


def make_guard(house: ServiceHouse) -> Guard:
    """The guard that the settings of a service ask for."""
    chosen, provider = house.settings, None
    if chosen.oidc is not None:
        from iceberg_compaction.interfaces.service.access import oidc

        provider = oidc.OidcProvider(settings=chosen.oidc)
    return Guard(
        mode=mode_of(house),
        tokens=token_book(house),
        limits=rate_limits.RateLimits(per_minute=chosen.limits.requests_per_minute, monotonic=time.monotonic),
        oidc=provider,
        is_fixed=chosen.auth is not None,
    )


def mode_of(house: ServiceHouse) -> AuthMode:
    """As the settings say; else tokens, once there is one, even if it is over, or a provider of them."""
    if house.settings.auth is not None:
        return house.settings.auth
    wants_tokens = house.settings.oidc is not None or bool(token_book(house).tokens())
    return AuthMode.TOKENS if wants_tokens else AuthMode.NONE


def host_of(house: ServiceHouse) -> tuple[str, str]:
    """The address to listen at, and a sentence on who may ask. Without any token it is this machine alone, unless
    AUTH=none is written out. ConfigError: an address was chosen that everybody could use."""
    chosen = house.settings.host
    if house.settings.auth is AuthMode.NONE:
        return chosen or "0.0.0.0", "AUTH=none: everybody who reaches this address may do everything."
    if mode_of(house) is AuthMode.TOKENS:
        return chosen or "0.0.0.0", "Requests need a token."
    if chosen is not None and chosen not in LOOPBACK:
        raise errors.ConfigError(
            f"No token is configured, so that everybody could use the service at {chosen}; make one with "
            f"{_token_command(house)}, or write AUTH=none."
        )
    return chosen or LOOPBACK[0], (
        f"No token is configured, so that the service listens on this machine alone; {_token_command(house)} makes one."
    )


def _token_command(house: ServiceHouse) -> str:
    """How to make a token that this service knows. The URL of a store may hold a secret."""
    store, command = house.settings.store or "", "iceberg-compact token create NAME --role admin"
    if run_stores.file_of(store) is not None:
        return f"`{command} --store {shlex.quote(store)}`"
    return f"`{command}` with the same --store"

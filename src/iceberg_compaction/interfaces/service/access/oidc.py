"""Bearer tokens of an OIDC provider: their signature is checked with the provider's keys, and claims become a role and
tenants. Keys are fetched when a token first names one, and again after a while, never for every request."""

from __future__ import annotations

import json
import logging
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.model.principal import Principal, Role

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from iceberg_compaction.interfaces.service.service_settings import OidcSettings

# Signatures by a key pair only: with a shared secret, or none, whoever knows the public keys could sign.
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
_LEEWAY_S = 30  # clocks differ
_KEYS_FOR_S = 600.0
_TRY_AGAIN_S = 10.0  # after an unknown key, or a provider that does not answer
_TIMEOUT_S = 5.0
_MOST_BYTES = 1_000_000
_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class OidcProvider:
    """One provider. UnauthenticatedError: a token does not count, or the provider cannot be asked."""

    settings: OidcSettings
    monotonic: Callable[[], float] = time.monotonic
    _keys: dict[str, Any] = field(default_factory=dict)
    _fetched: float | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def principal(self, token: str) -> Principal:
        """Who a token stands for."""
        import jwt

        try:
            header = jwt.get_unverified_header(token)
            claims = jwt.decode(
                token,
                key=self._key(str(header.get("kid", ""))),
                algorithms=_ALGORITHMS,
                audience=self.settings.audience,
                issuer=self.settings.issuer,
                leeway=_LEEWAY_S,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (jwt.PyJWTError, ValueError) as error:
            _log.info("A token of the OIDC provider is refused: %s", type(error).__name__)
            raise errors.UnauthenticatedError("The token is not accepted.") from None
        return self._from(claims)

    def _from(self, claims: Mapping[str, Any]) -> Principal:
        role = self._role(_texts(claims, self.settings.role_claim))
        tenants: tuple[str, ...] | None = None
        if self.settings.tenants_claim is not None:
            tenants = tuple(_texts(claims, self.settings.tenants_claim))
        name = str(claims.get(self.settings.name_claim) or claims.get("sub") or "")[:200]
        if role is None or not name:
            raise errors.UnauthenticatedError("The token is not accepted.")
        return Principal(name=name, role=role, tenants=tenants)

    def _role(self, values: list[str]) -> Role | None:
        """The highest role that the claim gives."""
        given = self.settings.roles or {role.value: role for role in Role}
        roles = [given[value] for value in values if value in given]
        return max(roles, key=lambda role: role.rank) if roles else None

    def _key(self, key_id: str) -> Any:
        with self._lock:
            now = self.monotonic()
            age = None if self._fetched is None else now - self._fetched
            if age is None or age > _KEYS_FOR_S or (key_id not in self._keys and age > _TRY_AGAIN_S):
                self._fetched = now
                self._refresh()
            key = self._keys.get(key_id)
            if key is None and not key_id and len(self._keys) == 1:
                key = next(iter(self._keys.values()))  # a provider with one key need not name it
        if key is None:
            raise ValueError("its key is not known")
        return key

    def _refresh(self) -> None:
        """Keys that were there stay if the provider does not answer: its tokens end by themselves."""
        import jwt

        try:
            document = _get(self.settings.jwks_url or self._jwks_url())
            listed = jwt.PyJWKSet.from_dict(document).keys
        except (OSError, ValueError, jwt.PyJWTError) as error:
            _log.warning("The keys of the OIDC provider %s cannot be read: %s", self.settings.issuer, error)
            return
        self._keys = {key.key_id or "": key for key in listed}

    def _jwks_url(self) -> str:
        configuration = _get(self.settings.issuer.rstrip("/") + "/.well-known/openid-configuration")
        if configuration.get("issuer") != self.settings.issuer:
            raise ValueError("its openid-configuration is that of another issuer")
        return str(configuration.get("jwks_uri", ""))


def _texts(claims: Mapping[str, Any], path: str) -> list[str]:
    """The texts of a claim, which may lie deeper: `realm_access.roles`. A name with dots of its own counts first."""
    value: Any = claims.get(path)
    if value is None:
        value = claims
        for part in path.split("."):
            value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, str):
        return value.split()
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _get(url: str) -> dict[str, Any]:
    import requests

    answer = requests.get(url, timeout=_TIMEOUT_S, stream=True)
    with answer:
        answer.raise_for_status()
        content = answer.raw.read(_MOST_BYTES, decode_content=True)
    document = json.loads(content)
    if not isinstance(document, dict):
        raise ValueError("the answer is no JSON object")
    return document

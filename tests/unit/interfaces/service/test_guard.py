"""Who is recognised by the service, and who may do what."""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from iceberg_compaction import errors
from iceberg_compaction.interfaces.service import service_house, service_settings
from iceberg_compaction.interfaces.service.access import guard, oidc, rate_limits
from iceberg_compaction.model.principal import ANYBODY, Principal, Role

AUDIENCE = "compaction"


def house(**given: Any) -> service_house.ServiceHouse:
    flags = {"store": "memory://", "catalogs": {"lake": {"uri": "sqlite:///x.db"}}, **given}
    return service_house.build(service_settings.load(flags, None, {}))


def bearer(secret: str) -> str:
    return f"Bearer {secret}"


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def test_without_any_token_the_service_is_open_on_loopback_only() -> None:
    home = house()
    address, sentence = guard.host_of(home)
    assert address == "127.0.0.1"
    assert "token create" in sentence
    assert guard.make_guard(home).principal(None, "127.0.0.1") is ANYBODY
    with pytest.raises(errors.ConfigError, match="AUTH=none"):
        guard.host_of(house(host="0.0.0.0"))
    assert guard.host_of(house(auth="none"))[0] == "0.0.0.0"
    assert guard.host_of(house(auth="none", host="10.0.0.1"))[0] == "10.0.0.1"


def test_the_first_token_closes_the_door_and_its_end_does_not_open_it(monkeypatch: pytest.MonkeyPatch) -> None:
    home = house()
    door = guard.make_guard(home)
    assert door.principal(None, "a") is ANYBODY
    made = guard.token_book(home).create("ann", Role.ADMIN)
    now = time.monotonic() + 100
    monkeypatch.setattr(guard.time, "monotonic", lambda: now)
    with pytest.raises(errors.UnauthenticatedError):
        door.principal(None, "a")
    guard.token_book(home).revoke(made.token.token_id)
    with pytest.raises(errors.UnauthenticatedError):
        door.principal(bearer(made.secret), "a")
    assert guard.mode_of(home) is service_settings.AuthMode.TOKENS  # also after a restart
    assert guard.host_of(home)[0] == "0.0.0.0"


def test_a_token_comes_as_bearer_or_as_a_password() -> None:
    home = house()
    made = guard.token_book(home).create("ann", Role.OPERATOR, tenants=("shop",))
    door = guard.make_guard(home)
    wanted = Principal(name="ann", role=Role.OPERATOR, tenants=("shop",), token_id=made.token.token_id)
    for header in (
        bearer(made.secret),
        basic("anything", made.secret),
        f"bearer   {made.secret}",
        basic("", made.secret),
    ):
        assert door.principal(header, "a") == wanted
    wrong = [
        "",
        "Bearer",
        "Bearer ",
        made.secret,
        "Basic !!!",
        basic(made.secret, ""),
        "Digest x",
        bearer("ict_no"),
        "x" * 99_999,
    ]
    for header in (None, *wrong):
        with pytest.raises(errors.UnauthenticatedError) as refused:
            door.principal(header, "a")
        assert made.secret not in str(refused.value)


def test_a_revoked_token_is_over_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    home = house()
    made = guard.token_book(home).create("ann", Role.ADMIN)
    door = guard.make_guard(home)
    assert door.principal(bearer(made.secret), "a").name == "ann"
    guard.token_book(home).revoke(made.token.token_id)
    now = time.monotonic() + 6
    monkeypatch.setattr(guard.time, "monotonic", lambda: now)
    with pytest.raises(errors.UnauthenticatedError):
        door.principal(bearer(made.secret), "a")


def test_guesses_cost_the_store_no_more_than_their_rate_and_shut_out_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    home = house(auth="tokens", limits={"requests_per_minute": 20})
    made = guard.token_book(home).create("ann", Role.VIEWER)
    door = guard.make_guard(home)
    assert door.principal(bearer(made.secret), "proxy").name == "ann"
    looked: list[str] = []
    find = guard.TokenBook.find
    monkeypatch.setattr(guard.TokenBook, "find", lambda book, secret: looked.append(secret) or find(book, secret))
    refusals = []
    for number in range(100):
        with pytest.raises((errors.UnauthenticatedError, errors.TooManyError)) as refused:
            door.principal(bearer(f"ict_{number}"), "proxy")
        refusals.append(refused.type)
    assert len(looked) == refusals.count(errors.UnauthenticatedError) <= 20
    now = time.monotonic() + 6
    monkeypatch.setattr(guard.time, "monotonic", lambda: now)  # the token has to be looked up again
    assert door.principal(bearer(made.secret), "proxy").name == "ann"


@pytest.mark.parametrize(("role", "needed", "may"), [(a, b, a.rank >= b.rank) for a in Role for b in Role])
def test_a_role_may_do_what_lower_ones_may(role: Role, needed: Role, may: bool) -> None:
    door = guard.make_guard(house())
    if may:
        door.require(Principal(name="x", role=role), needed)
    else:
        with pytest.raises(errors.ForbiddenError, match=needed.value):
            door.require(Principal(name="x", role=role), needed)


def test_permits_come_back_evenly_and_clients_do_not_share_them() -> None:
    now = [0.0]
    limits = rate_limits.RateLimits(per_minute=60, monotonic=lambda: now[0])
    assert [limits.take("a") for _ in range(60)] == [0.0] * 60
    assert limits.take("a") == pytest.approx(1.0)
    assert limits.take("b") == 0.0
    now[0] += 1.0
    assert limits.take("a") == 0.0
    assert limits.take("a") == pytest.approx(1.0)
    for number in range(25_000):
        limits.take(f"client {number}")
        now[0] += 0.001
    assert len(limits._buckets) <= 10_000


def test_strangers_are_counted_by_address_so_that_guessing_is_slow() -> None:
    home = house(auth="tokens", limits={"requests_per_minute": 3})
    door = guard.make_guard(home)
    for _ in range(3):
        with pytest.raises(errors.UnauthenticatedError):
            door.principal(bearer("ict_guess"), "1.2.3.4")
    with pytest.raises(errors.TooManyError) as refused:
        door.principal(bearer("ict_guess"), "1.2.3.4")
    assert 0 < refused.value.retry_after_s <= 20
    with pytest.raises(errors.UnauthenticatedError):
        door.principal(bearer("ict_guess"), "1.2.3.5")


class Provider:
    """A real HTTP server with the keys of an OIDC provider."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.key_id = "first"
        self.asked = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked += 1
                found = outer.document(self.path)
                content = json.dumps(found).encode()
                self.send_response(200 if found is not None else 404)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def document(self, path: str) -> Any:
        if path.endswith("openid-configuration"):
            return {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"}
        public = jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        return {"keys": [{**public, "kid": self.key_id, "use": "sig", "alg": "RS256"}]}

    def token(self, *, key: Any = None, algorithm: str = "RS256", **claims: Any) -> str:
        body = {
            "iss": self.issuer,
            "aud": AUDIENCE,
            "sub": "ann",
            "exp": time.time() + 60,
            "role": "operator",
            **claims,
        }
        body = {name: value for name, value in body.items() if value is not None}
        return jwt.encode(body, key or self.key, algorithm=algorithm, headers={"kid": self.key_id})

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def provider() -> Any:
    made = Provider()
    yield made
    made.close()


def settings(provider: Provider, **more: Any) -> service_settings.OidcSettings:
    return service_settings.OidcSettings(issuer=provider.issuer, audience=AUDIENCE, **more)


@pytest.mark.server
def test_claims_of_a_provider_become_role_and_tenants(provider: Provider) -> None:
    deep = settings(provider, role_claim="realm.roles", roles={"dba": "admin", "dev": "viewer"}, tenants_claim="groups")
    made = oidc.OidcProvider(settings=deep)
    token = provider.token(realm={"roles": ["dev", "dba", "other"]}, groups=["shop", "web"])
    assert made.principal(token) == Principal(name="ann", role=Role.ADMIN, tenants=("shop", "web"))
    nobody = made.principal(provider.token(realm={"roles": ["dev"]}))
    assert nobody.tenants == ()
    assert not nobody.may_see("shop")
    for claims in ({"realm": {"roles": ["other"]}}, {"realm": None}, {"realm": {"roles": ["dba"]}, "sub": ""}):
        with pytest.raises(errors.UnauthenticatedError):
            made.principal(provider.token(**claims))
    assert provider.asked == 2  # the configuration and the keys, once


@pytest.mark.server
def test_tokens_that_a_provider_did_not_make_are_refused(provider: Provider) -> None:
    made = oidc.OidcProvider(settings=settings(provider))
    assert made.principal(provider.token()).role is Role.OPERATOR
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = provider.key.public_key()
    from cryptography.hazmat.primitives import serialization

    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    unsigned = provider.token().rsplit(".", 1)[0] + "."
    forged = [
        provider.token(key=other),
        provider.token(aud="another"),
        provider.token(iss="http://evil"),
        provider.token(exp=time.time() - 120),
        provider.token(exp=None),
        provider.token(nbf=time.time() + 600),
        unsigned,
        jwt.encode({"iss": provider.issuer, "aud": AUDIENCE, "role": "admin"}, None, algorithm="none"),
        _hmac(provider, pem),
        "a.b.c",
        "",
    ]
    for token in forged:
        with pytest.raises(errors.UnauthenticatedError) as refused:
            made.principal(token)
        assert token == "" or token not in str(refused.value)


def _hmac(provider: Provider, pem: bytes) -> str:
    """Signed with the public key as if it were a shared secret."""
    import hashlib
    import hmac

    def part(value: Any) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    claims = {"iss": provider.issuer, "aud": AUDIENCE, "sub": "x", "role": "admin", "exp": time.time() + 60}
    signed = part({"alg": "HS256", "typ": "JWT", "kid": provider.key_id}) + b"." + part(claims)
    signature = hmac.new(pem, signed, hashlib.sha256).digest()
    return (signed + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()


@pytest.mark.server
def test_keys_change_and_the_provider_may_be_away(provider: Provider) -> None:
    now = [0.0]
    made = oidc.OidcProvider(settings=settings(provider), monotonic=lambda: now[0])
    assert made.principal(provider.token()).name == "ann"
    provider.key, provider.key_id = rsa.generate_private_key(public_exponent=65537, key_size=2048), "second"
    with pytest.raises(errors.UnauthenticatedError):
        made.principal(provider.token())  # unknown keys do not make it ask at once again
    asked = provider.asked
    now[0] += 11
    assert made.principal(provider.token()).name == "ann"
    assert provider.asked > asked
    kept = provider.token()
    provider.close()
    now[0] += 601
    assert made.principal(kept).name == "ann"  # known keys still hold

"""Tokens and the audit log of a service, in every place that a store may be in."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from iceberg_compaction import errors
from iceberg_compaction.model.audit_entry import AuditEntry
from iceberg_compaction.model.principal import Role
from iceberg_compaction.record.service import access_tokens, audit_log

if TYPE_CHECKING:
    from tests.factories import stores


class Clock:
    now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def entries(every_place: stores.Place) -> Any:
    return every_place.open().entries


@pytest.fixture
def book(entries: Any, clock: Clock) -> access_tokens.TokenBook:
    numbers = itertools.count()
    return access_tokens.TokenBook(entries=entries, clock=clock, secret=lambda: f"chance-{next(numbers)}")


def test_a_token_is_found_by_its_secret_alone_and_the_store_does_not_have_that(book, entries):
    made = book.create("airflow", Role.OPERATOR, tenants=("shop",), seconds=60, created_by="ann")
    assert book.find(made.secret) == made.token
    assert made.token.principal.may_see("shop")
    assert not made.token.principal.may_see("other")
    assert not made.token.principal.may_see(None)
    for wrong in ("", "ict_", made.secret + "x", made.secret[:-1], made.token.token_id, "ict_\ud800"):
        assert book.find(wrong) is None
    stored = entries.scan("service-token")
    assert stored
    assert all("chance" not in entry.key + entry.value for entry in stored)


def test_a_token_ends_by_time_and_by_revocation(book, clock):
    short = book.create("short", Role.VIEWER, seconds=60)
    lasting = book.create("lasting", Role.ADMIN)
    clock.now_ms += 59_999
    assert book.find(short.secret) is not None
    clock.now_ms += 1
    assert book.find(short.secret) is None
    assert book.find(lasting.secret) is not None
    first = book.revoke(lasting.token.token_id)
    clock.now_ms += 5
    assert book.revoke(lasting.token.token_id) == first
    assert book.find(lasting.secret) is None
    assert {token.name for token in book.tokens()} == {"short", "lasting"}
    with pytest.raises(errors.ConfigError, match="no token with the id"):
        book.revoke("unknown")


@pytest.mark.parametrize("name", ["", "x" * 101, "a\nb", "a\x00"])
def test_a_name_that_no_screen_can_show_is_refused(book, name):
    with pytest.raises(errors.ConfigError, match="cannot be the name of a token"):
        book.create(name, Role.VIEWER)
    assert book.tokens() == []


def test_the_audit_log_pages_from_the_newest_and_forgets_the_old(entries):
    numbers = itertools.count()
    log = audit_log.AuditLog(entries=entries, unique=lambda: f"{next(numbers):04d}")
    for number in range(25):
        tenant = "shop" if number % 2 else None
        log.add(
            AuditEntry(at_ms=1000 + number // 2, principal=f"p{number}", action="x" * 900, tenant=tenant, status=200)
        )
    seen, after = [], ""
    while True:
        page, cursor = log.page(limit=4, after=after, fits=lambda entry: entry.tenant == "shop")
        seen += page
        if cursor is None:
            break
        after = cursor
    assert [entry.at_ms for entry in seen] == sorted((entry.at_ms for entry in seen), reverse=True)
    assert {entry.principal for entry in seen} == {f"p{number}" for number in range(25) if number % 2}
    assert len(seen) == 12
    assert len(seen[0].action) == 500
    assert audit_log.remove_before(entries, 1005) == 10
    left, _ = log.page(limit=100)
    assert len(left) == 15
    assert min(entry.at_ms for entry in left) == 1005

"""What servers of run stores have beyond the contract: passwords, users, and sentences about trouble."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import requests
from tests.factories import store_servers
from tests.factories.stores import make_record

from iceberg_compaction import errors
from iceberg_compaction.interfaces import wiring

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.factories.store_servers import StoreServer


@pytest.mark.parametrize(("kind", "words"), [("postgresql", "password authentication failed"), ("redis", "password")])
def test_a_wrong_password_is_one_sentence_without_it(
    kind: str, words: str, store_server: Callable[[str], StoreServer]
) -> None:
    url = store_server(kind).new_url().replace(store_servers.PASSWORD, "wr0ng-pass")
    store = wiring.run_store(url)
    for use in (store.history, lambda: store.save(make_record("r"))):
        with pytest.raises(
            errors.StoreError, match=rf"(?s)^The run store {kind}://.* cannot be .*{words}.*\.$"
        ) as caught:
            use()
        assert "wr0ng-pass" not in str(caught.value)
        assert "\n" not in str(caught.value)
    store.entries.close()


@pytest.mark.parametrize("kind", store_servers.KINDS)
def test_a_server_that_is_not_there_is_one_sentence(kind: str) -> None:
    store = wiring.run_store(f"{kind}://u:s3cret@127.0.0.1:1/0")
    with pytest.raises(
        errors.StoreError, match=r"cannot be read: .*[Rr]efused.*; check it or choose another"
    ) as caught:
        store.history()
    assert "s3cret" not in str(caught.value)


def test_stores_in_one_server_are_told_apart_by_their_prefixes(store_server: Callable[[str], StoreServer]) -> None:
    for kind in store_servers.KINDS:
        first, second = (wiring.run_store(store_server(kind).new_url()) for _ in range(2))
        first.save(make_record("r"))
        assert (len(first.history()), second.history()) == (1, [])
        first.entries.close()
        second.entries.close()


def test_etcd_knows_users_and_tokens_that_expire() -> None:
    with store_servers.running("etcd") as server:
        base = f"http://127.0.0.1:{server.port}/v3/auth"
        for path, content in [
            ("user/add", {"name": "root", "password": "r00t-pass"}),
            ("user/grant", {"user": "root", "role": "root"}),
            ("enable", {}),
        ]:
            if path == "user/grant":
                requests.post(f"{base}/role/add", json={"name": "root"}, timeout=10)
            assert requests.post(f"{base}/{path}", json=content, timeout=10).ok
        store = wiring.run_store(f"etcd://root:r00t-pass@127.0.0.1:{server.port}")
        store.save(make_record("r"))
        for number in range(3):  # by chance a token of before may be known to the next process, too
            server.kill()  # tokens are kept in memory
            server.start()
            store.save(make_record(f"s{number}", started_ms=20 + number))
        assert [record.run_id for record in store.history()] == ["s2", "s1", "s0", "r"]
        with pytest.raises(errors.StoreError, match="cannot be read") as caught:
            wiring.run_store(f"etcd://root:wr0ng@127.0.0.1:{server.port}").history()
        assert "wr0ng" not in str(caught.value)

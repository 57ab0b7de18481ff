"""Processes of a service that share a run store: a file is for one of them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from tests.factories import services

from iceberg_compaction import errors
from iceberg_compaction.interfaces.service import replicas
from iceberg_compaction.interfaces.service.loop_trouble import StoreTrouble
from iceberg_compaction.model.run_record import Process
from iceberg_compaction.model.service_member import ServiceMember
from iceberg_compaction.record.service.service_members import ServiceMembers

if TYPE_CHECKING:
    from pathlib import Path

    from iceberg_compaction.interfaces.service.service_house import ServiceHouse

ELSEWHERE = Process(host="c0ffee/another-boot/pid:[4026532000]", pid=1, started="12")


def make_house(folder: Path) -> ServiceHouse:
    return services.make_house(store=str(folder / "runs.db"), takeover=0.8)


def other(house: ServiceHouse, *, since_ms: int = 1) -> ServiceMember:
    return ServiceMember(
        member="another", role="all", process=ELSEWHERE, version="1", since_ms=since_ms, beat_ms=house.clock()
    )


def test_a_process_in_another_container_that_gives_signs_of_life_is_recognised(tmp_path: Path) -> None:
    house, over = make_house(tmp_path), threading.Event()
    members = ServiceMembers(house.store.entries)
    members.beat(other(house))

    def beat() -> None:
        while not over.wait(0.1):
            members.beat(other(house))

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        with pytest.raises(errors.ConfigError, match=r"Process 1 of c0ffee serves .*postgresql://HOST/DATABASE"):
            replicas.Replica(house=house, member="me", version="1").join()
        assert [each.member for each in members.list()] == ["another"]
    finally:
        over.set()
        thread.join()


def test_a_container_that_was_killed_is_waited_for_once_and_an_old_one_not_at_all(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    house = make_house(tmp_path)
    members = ServiceMembers(house.store.entries)
    members.beat(other(house))
    members.beat(other(house).model_copy(update={"member": "old", "beat_ms": 1}))
    me = replicas.Replica(house=house, member="me", version="1")
    me.join()
    me.leave()
    assert [record.message for record in caplog.records if "a moment ago" in record.message]
    caplog.clear()
    members.leave("another")
    me = replicas.Replica(house=house, member="me again", version="1")
    me.join()
    me.leave()
    assert not caplog.records


def test_a_server_is_for_many(tmp_path: Path) -> None:
    house = services.make_house(takeover=0.8)
    ServiceMembers(house.store.entries).beat(other(house))
    me = replicas.Replica(house=house, member="me", version="1")
    me.join()
    me.leave()


def test_trouble_that_lasts_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    trouble = StoreTrouble(who="The worker", monotonic=lambda: now[0])
    for _ in range(90):
        trouble.note(errors.StoreError("It is gone."))
        now[0] += 1
    trouble.over()
    trouble.over()
    words = [record.message for record in caplog.records]
    assert words == [*["The worker waits for the run store: It is gone."] * 2, words[-1]]
    assert "answers again" in words[-1]

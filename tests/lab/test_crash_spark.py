"""On a real cluster executors are killed, tasks are tried again and twice at the same time, and the driver dies. No row
is lost, what can land does, and one plain run later no file is left unexplained (R62)."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import lake as lakes
from tests.lab import cluster, drill, scene

from iceberg_compaction import Compactor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab.drill import Bench

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with cluster.cluster(tmp_path_factory.mktemp("cluster")) as address:
        yield address


class Lab:
    """Tables on a lake, and a driver's job on them."""

    def __init__(self, folder: Path, master: str) -> None:
        self.folder, self.master = folder, master
        self.lake = lakes.file_lake(folder / "lake")
        (folder / "told").mkdir()

    def bench(self, name: str) -> Bench:
        scene.build(self.lake.catalog, name)
        settings, state = self.lake.settings, self.folder / "runs.db"
        return drill.Bench(settings=settings, name=name, state=state, model=scene.model())

    def job(self, tables: dict[str, str], **conf: str) -> cluster.Job:
        return cluster.Job(
            master=self.master,
            settings=self.lake.settings.model_dump_json(),
            state=str(self.folder / "runs.db"),
            options=scene.OPTIONS,
            tables=tables,
            folder=str(self.folder / "told"),
            conf=conf,
        )

    def lose_a_machine(self) -> None:
        """Kill the executor whose task hangs, all of its processes, before one of them can clean up."""
        pids = self.folder / "told" / "pids"
        cluster.wait_until(pids.exists, "no task hangs")
        worker, daemon, executor = map(int, pids.read_text().split())
        for pid in (worker, daemon):
            os.kill(pid, signal.SIGSTOP)
        for pid in (executor, daemon, worker):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def lab(tmp_path: Path, master: str) -> Iterator[Lab]:
    made = Lab(tmp_path, master)
    yield made
    made.lake.catalog.close()


def ends(outcome: dict[str, Any]) -> list[str]:
    return [group["outcome"] for group in sorted(outcome["group_outcomes"], key=lambda group: group["partition"])]


def left_behind(bench: Bench) -> set[str]:
    with bench.table() as table:
        return scene.unexplained(table)


def test_a_lost_executor_is_replaced_and_one_that_is_lost_again_and_again_costs_its_group(lab: Lab) -> None:
    lost, poisoned = lab.bench("db.t"), lab.bench("db.u")
    with cluster.driver(lab.job({"db.t": cluster.HANG, "db.u": cluster.DIE})) as driver:
        lab.lose_a_machine()
        told = [json.loads(line) for line in driver.communicate()[0].splitlines()]
    assert [ends(outcome) for outcome in told] == [["landed"] * 3, ["landed", "failed", "landed"]]
    assert (told[1]["kind"], told[1]["groups_failed"]) == ("compacted", 1)
    assert "ExecutorLostFailure" in told[1]["sentence"]
    assert left_behind(lost)  # nobody was there any more to remove them
    for bench in (lost, poisoned):
        bench.check_readable()
        bench.check_plain_run()


def test_of_two_attempts_that_both_come_to_their_end_the_other_leaves_what_the_next_run_removes(lab: Lab) -> None:
    bench = lab.bench("db.t")
    hasty = {"spark.speculation": "true", "spark.speculation.task.duration.threshold": "1s"}
    with cluster.driver(lab.job({"db.t": cluster.TWICE}, **hasty)) as driver:
        (outcome,) = [json.loads(line) for line in driver.communicate()[0].splitlines()]
    assert (lab.folder / "told" / "second-ends").exists()
    assert ends(outcome) == ["landed"] * 3
    assert left_behind(bench)
    bench.check_readable()
    bench.check_plain_run()


def test_a_cancel_from_another_process_ends_a_run_whose_task_hangs(lab: Lab) -> None:
    bench = lab.bench("db.t")
    with cluster.driver(lab.job({"db.t": cluster.HANG})) as driver:
        cluster.wait_until((lab.folder / "told" / "pids").exists, "no task hangs")
        compactor = Compactor(bench.settings, engine="inline", state=bench.state)
        answer = compactor.cancel("latest", wait=cluster.HANG_SECONDS / 2)
        compactor.catalog.close()
        driver.communicate()
    assert answer.state == "cancelled", answer.sentence
    assert f"Run {answer.run_id} was cancelled by " in answer.sentence
    bench.check_readable()
    bench.check_plain_run()


def test_a_driver_that_dies_with_its_executor_leaves_what_the_next_run_removes(lab: Lab) -> None:
    bench = lab.bench("db.t")
    with cluster.driver(lab.job({"db.t": cluster.HANG})) as driver:
        cluster.wait_until((lab.folder / "told" / "pids").exists, "no task hangs")
        driver.kill()
        driver.wait()
        lab.lose_a_machine()
    assert left_behind(bench)
    bench.check_readable()
    outcome = bench.check_plain_run()
    assert Counter(one.outcome.value for one in outcome.group_outcomes)["landed"] >= 1

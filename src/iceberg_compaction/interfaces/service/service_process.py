"""One process of the service: settings come in; HTTP, workers and the scheduler run until a signal comes, and end in
order within the grace period. HTTP answers first: nothing heavy is loaded before."""

from __future__ import annotations

import contextlib
import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors, version
from iceberg_compaction.interfaces.service import http_server, replicas
from iceberg_compaction.interfaces.service.access import guard
from iceberg_compaction.interfaces.service.api import app_factory
from iceberg_compaction.interfaces.service.service_settings import ServiceRole

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.interfaces.service.service_house import ServiceHouse
    from iceberg_compaction.model.work import Work
    from iceberg_compaction.observe.metrics.run_metrics import RunMetrics

_HTTP_END_S = 3.0  # of the grace period, for answers that are under way
_LOOK_S, _LOOKS = 0.005, 6000  # until HTTP answers
_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class ServiceProcess:
    """A process that serves. `member`: its name, which no other process ever had."""

    house: ServiceHouse
    member: str
    run_metrics: RunMetrics | None = None
    on_event: Callable[[Any], None] | None = None
    say: Callable[[str], None] | None = None  # a line for people, such as how work has ended
    address: str = field(default="", init=False)  # once it answers
    sentence: str = field(default="", init=False)  # who may ask
    _open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack, init=False)
    _server: http_server.ServiceServer | None = field(default=None, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)
    _app: Any = field(default=None, init=False)
    _replica: replicas.Replica | None = field(default=None, init=False)
    _worker: Any = field(default=None, init=False)
    _scheduler: Any = field(default=None, init=False)
    _over: threading.Event = field(default_factory=threading.Event, init=False)

    def start(self) -> None:
        """Answer requests, and begin to work. ConfigError: the address is taken, or the store is not for several."""
        settings = self.house.settings
        host, self.sentence = guard.host_of(self.house)
        self._open.enter_context(self.house.store.entries.stay_open())
        self.house.store.entries.hold()
        self._replica = replicas.Replica(house=self.house, member=self.member, version=version.__version__)
        self._replica.join()
        listener = http_server.listen(host, settings.port)
        try:
            self._app = app_factory.make_app(self.house, run_metrics=self.run_metrics)
            self._server = http_server.make_server(
                self._app, request_seconds=settings.limits.request_seconds, grace_s=_HTTP_END_S
            )
            self._thread = threading.Thread(
                target=self._server.run, kwargs={"sockets": [listener]}, name="http", daemon=True
            )
            self._thread.start()
            self._await_http()
        except BaseException:
            listener.close()
            self._replica.leave()
            raise
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{listener.getsockname()[1]}"
        if settings.role is not ServiceRole.API:
            self._start_work()

    def stop(self) -> bool:
        """End within the grace period: no new work, then runs end or hand over, then HTTP. True: nothing was left."""
        settings = self.house.settings
        self._app.state.desk.ending.set()
        self._over.set()
        if self._scheduler is not None:
            self._scheduler.stop()
        is_idle = True
        if self._worker is not None:
            is_idle = self._worker.stop(max(0.0, settings.grace - _HTTP_END_S))
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(timeout=_HTTP_END_S + 2)
        if self._replica is not None:
            self._replica.leave()
        self._open.close()
        return is_idle

    @property
    def is_alive(self) -> bool:
        """Whether HTTP still answers."""
        return self._thread is not None and self._thread.is_alive()

    def _ended(self, work: Work) -> None:
        if self.say is not None:
            self.say(f"{work.request.kind.value} {work.request.table}: {work.state.value}, {work.sentence}")
        self.house.notices.ended(work)

    def _await_http(self) -> None:
        assert self._server is not None
        assert self._thread is not None
        never = threading.Event()
        for _ in range(_LOOKS):
            if self._server.started:
                return
            if not self._thread.is_alive():
                break
            never.wait(_LOOK_S)
        raise errors.SetupError("The HTTP server did not start; the log says why.")

    def _start_work(self) -> None:
        """Late: what performs work takes a second to load, and HTTP answers meanwhile."""
        from iceberg_compaction.interfaces.service.scheduling.scheduler_loop import SchedulerLoop
        from iceberg_compaction.interfaces.service.work.worker_loop import WorkerLoop

        assert self._replica is not None
        notices = self.house.notices
        worker = WorkerLoop(house=self.house, member=self.member, on_event=self.on_event, on_end=self._ended)
        self._replica.is_worker = True
        worker.start()
        self._worker = worker
        self._app.state.desk.woken.append(worker.wake)
        if self.house.settings.webhooks:
            deliver = threading.Thread(
                target=notices.queue.run, args=(self.member, self._over), name="notices", daemon=True
            )
            deliver.start()
        if not self.house.settings.scheduler.enabled:
            return

        def lead(leads: bool) -> None:
            worker.leads = leads

        self._scheduler = SchedulerLoop(house=self.house, member=self.member, on_asked=worker.wake, on_lead=lead)
        self._scheduler.start()

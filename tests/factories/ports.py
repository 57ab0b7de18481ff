"""The ports of a run, watched: calls at the run store, the FileIO, the catalog and the engine, and events, have names
and are counted, so that a test can act at any of them. Ports are wrapped where they are handed in; nothing in the
product knows of this.

    store.METHOD                 each method of the run store's contract
    entries.checkpoint           a checkpoint is changed; entries.checkpoint-head: its head
    entries.removal              a removal of files is written down or forgotten
    io.KIND.create|write|close   a file is written; KIND: data-file, manifest, manifest-list, statistics, table-metadata
    io.KIND.read                 a file is opened that was there before the run
    io.KIND.read-back            a file is opened that the run wrote
    io.KIND.delete
    catalog.load_table, catalog.commit_table
    engine.open, engine.start    the engine is made; it gets a job
    engine.task                  a task is performed
    event.KIND                   an event is emitted
    cache.store                  a table is put into the cache of metadata
"""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.io.pyarrow import PyArrowFileIO

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.model.events import Event

FILE_IO = f"{__name__}.WatchedFileIO"
BEFORE, HALF_WAY, AFTER = "before", "half way", "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Before, after or half way through the n-th call of a name. Half way: one half of its bytes is written."""

    call: str
    when: str = BEFORE
    nth: int = 1
    since: str = ""  # calls count from the end of the first call of this name


@dataclass(slots=True, kw_only=True)
class Watch:
    """Counts calls and acts at moments. Calls end in another order than they begin if they come from several
    threads: `before` counts beginnings, `after` counts ends."""

    acts: list[tuple[Moment, Callable[[], None]]] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)  # all that ended
    _reached: Counter[Moment] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def call(self, name: str, work: Callable[[], Any]) -> Any:
        self.reach(name, BEFORE)
        try:
            return work()
        finally:
            self.reach(name, AFTER)

    def reach(self, name: str, when: str) -> None:
        """Act if an act's moment has come."""
        with self._lock:
            if when == AFTER:
                self.calls[name] += 1
            due = [act for moment, act in self.acts if self._is_due(moment, name, when)]
        for act in due:
            act()

    def is_next(self, name: str, when: str) -> bool:
        """Whether an act's moment would come with this call."""
        with self._lock:
            return any(
                (moment.call, moment.when) == (name, when) and self._reached[moment] + 1 == moment.nth
                for moment, _ in self.acts
            )

    def _is_due(self, moment: Moment, name: str, when: str) -> bool:
        if (moment.call, moment.when) != (name, when) or (moment.since and not self.calls[moment.since]):
            return False
        self._reached[moment] += 1
        return self._reached[moment] == moment.nth

    # The ports.

    def store(self, store: Any) -> Any:
        """The run store, watched."""
        return _WatchedStore(store, self)

    def catalog(self, catalog: Any) -> Any:
        """The catalog itself, watched from now on: tables refer to the catalog that loaded them. Calls that a catalog
        makes to itself do not count."""
        watch, own = self, threading.local()

        def outermost(name: str, work: Callable[[], Any]) -> Any:
            if getattr(own, "inside", False):
                return work()
            own.inside = True
            try:
                return watch.call(name, work)
            finally:
                own.inside = False

        class Watched(type(catalog)):  # type: ignore[misc]
            def load_table(self, *given: Any) -> Any:
                real = super().load_table
                return outermost("catalog.load_table", lambda: real(*given))

            def commit_table(self, *given: Any) -> Any:
                real = super().commit_table
                return outermost("catalog.commit_table", lambda: real(*given))

        catalog.__class__ = Watched
        return catalog

    def engines(self) -> Callable[[], Any]:
        """A factory of inline engines."""
        from iceberg_compaction.execute.engines.inline_engine import InlineEngine
        from iceberg_compaction.execute.worker import execute_task

        watch = self

        def rewrite(*given: Any) -> Any:
            return watch.call("engine.task", lambda: execute_task.rewrite(*given))

        class Watched(InlineEngine):
            def start(self, *given: Any, **more: Any) -> Any:
                real = super().start
                return watch.call("engine.start", lambda: real(*given, **more))

        return lambda: watch.call("engine.open", lambda: nullcontext(Watched(rewrite=rewrite)))

    def cache(self, cache: Any) -> Any:
        """The cache of parsed manifests itself, watched from now on."""
        watch = self

        class Watched(type(cache)):  # type: ignore[misc]
            def store(self, *given: Any, **more: Any) -> None:
                real = super().store
                watch.call("cache.store", lambda: real(*given, **more))

        cache.__class__ = Watched
        return cache

    def on_event(self, event: Event) -> None:
        self.call(f"event.{event.kind}", lambda: None)


class _WatchedStore:
    def __init__(self, store: Any, watch: Watch) -> None:
        self._store, self._watch = store, watch

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._store, name)
        if name == "entries":
            return _WatchedEntries(real, self._watch)
        if not callable(real):
            return real
        return lambda *given, **more: self._watch.call(f"store.{name}", lambda: real(*given, **more))


class _WatchedEntries:
    def __init__(self, entries: Any, watch: Watch) -> None:
        self._entries, self._watch = entries, watch

    def change(self, values: Any, *expected: Any) -> Any:
        kind = next(iter(values), "").partition("/")[0]
        if not kind.startswith(("checkpoint", "removal")):
            return self._entries.change(values, *expected)
        return self._watch.call(f"entries.{kind}", lambda: self._entries.change(values, *expected))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._entries, name)


watch = Watch()  # of the files of this process: PyIceberg makes a FileIO by the name of its class


class WatchedFileIO(PyArrowFileIO):
    """Handed in as the catalog's `py-io-impl`, so that PyIceberg and workers use it, too."""

    _own: set[str] = set()  # written by this process

    def new_input(self, location: str) -> Any:
        file = super().new_input(location)
        opened = file.open
        name = f"io.{kind_of(location)}.{'read-back' if location in self._own else 'read'}"
        vars(file)["open"] = lambda *given, **more: watch.call(name, lambda: opened(*given, **more))
        return file

    def new_output(self, location: str) -> Any:
        file = super().new_output(location)
        create = file.create

        def created(overwrite: bool = False) -> Any:
            self._own.add(location)
            stream = watch.call(f"io.{kind_of(location)}.create", lambda: create(overwrite))
            return _WatchedStream(stream, f"io.{kind_of(location)}")

        vars(file)["create"] = created
        return file

    def delete(self, location: Any) -> None:
        path = location if isinstance(location, str) else location.location
        watch.call(f"io.{kind_of(path)}.delete", lambda: super(WatchedFileIO, self).delete(location))


def kind_of(location: str) -> str:
    """The kind of a file, by its name."""
    name = location.rpartition("/")[2]
    if name.endswith(".metadata.json"):
        return "table-metadata"
    if name.endswith(".avro"):
        return "manifest-list" if name.startswith("snap-") else "manifest"
    return "statistics" if name.startswith("partition-stats-") or name.endswith(".stats") else "data-file"


class _WatchedStream:
    closed = False

    def __init__(self, real: Any, name: str) -> None:
        self._real, self._name = real, name

    def write(self, data: Any) -> int:
        if watch.is_next(f"{self._name}.write", HALF_WAY):
            self._real.write(memoryview(data).cast("B")[: len(data) // 2])
            self._real.flush()
        watch.reach(f"{self._name}.write", HALF_WAY)
        return int(watch.call(f"{self._name}.write", lambda: self._real.write(data)))

    def tell(self) -> int:
        return int(self._real.tell())

    def flush(self) -> None:
        self._real.flush()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            watch.call(f"{self._name}.close", self._real.close)

    def __enter__(self) -> _WatchedStream:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

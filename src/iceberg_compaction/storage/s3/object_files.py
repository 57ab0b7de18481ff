"""A FileIO whose files in object stores cost as few requests as possible, each of them counted. PyArrow's FileIO comes
in and is changed in place; files on local disks and other implementations stay as they are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from iceberg_compaction.storage import exact_paths, request_counts
from iceberg_compaction.storage.s3 import kept_objects, object_reader, object_writer, request_pace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.io import FileIO, InputFile, OutputFile

    from iceberg_compaction.storage.s3 import plain_requests

_DONE = (200, 204, 206, 416)  # 416: a range of an empty object


def install(io: FileIO, count: request_counts.RequestCount | None = None) -> None:
    """From now on the FileIO opens files with few requests, which count in `count`, or in the one that is open now."""
    if type(io) is not PyArrowFileIO or "new_input" in vars(io):
        return
    store = _Store(io, count or request_counts.current())
    request_counts.attach(io, store.count)
    vars(io)["object_store"] = store
    vars(io)["new_input"] = vars(io)["new_output"] = store.file
    vars(io)["delete"] = store.delete


def room(io: FileIO, location: str) -> int:
    """Bytes of small files that this FileIO would still keep in memory if they were read whole; 0: it keeps none."""
    store = vars(io).get("object_store")
    return store.kept.left if isinstance(store, _Store) and isinstance(store.file(location), ObjectFile) else 0


def bucket_of(io: FileIO, location: str) -> plain_requests.Bucket | None:
    """The bucket of a file or folder, for requests about many of its objects; None: it is not in S3, or only Arrow's
    client reaches it."""
    store = vars(io).get("object_store")
    file = store.file(location) if isinstance(store, _Store) else None
    return file.bucket if isinstance(file, ObjectFile) else None


def facts_of(io: FileIO, location: str) -> Mapping[str, str]:
    """What S3 says about an object without sending it, by the names of its headers; none: another client must ask."""
    store = vars(io).get("object_store")
    file = store.file(location) if isinstance(store, _Store) else None
    return {} if not isinstance(file, ObjectFile) else file.facts()


def remove_many(io: FileIO, locations: Sequence[str]) -> dict[str, str] | None:
    """Deletes objects of S3 in bulk. Returns those that stay, with the code of the store. None: this FileIO or its
    store cannot, or not all of them are such objects."""
    store = vars(io).get("object_store")
    return store.remove_many(locations) if isinstance(store, _Store) else None


class _Store:
    """The buckets of one FileIO."""

    def __init__(self, io: PyArrowFileIO, count: request_counts.RequestCount) -> None:
        self._io = io
        self.count = count
        self.kept = kept_objects.KeptObjects()
        self._buckets: dict[str, plain_requests.Bucket | None] = {}

    def file(self, location: str) -> PyArrowFile:
        plain = PyArrowFileIO.new_input(self._io, location)
        scheme, authority, _ = self._io.parse_location(location, self._io.properties)
        if not exact_paths.has_objects(scheme):
            return plain
        return ObjectFile(self, plain, authority if scheme in exact_paths.S3_SCHEMES else None)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        text = location if isinstance(location, str) else location.location
        file = self.file(text)
        if not isinstance(file, ObjectFile) or not file.delete():
            PyArrowFileIO.delete(self._io, text)

    def remove_many(self, locations: Sequence[str]) -> dict[str, str] | None:
        by_bucket: dict[plain_requests.Bucket, dict[str, str]] = {}
        for location in locations:
            file = self.file(location)
            bucket = file.bucket if isinstance(file, ObjectFile) else None
            if not isinstance(file, ObjectFile) or bucket is None:
                return None
            self.kept.drop(location)
            by_bucket.setdefault(bucket, {})[file.key] = location
        stay: dict[str, str] = {}
        for bucket, keys in by_bucket.items():
            refused = bucket.delete_many(list(keys))
            if refused is None:
                return None
            stay |= {keys.get(key, key): code for key, code in refused.items()}
        return stay

    def bucket(self, name: str, file_system: Any) -> plain_requests.Bucket | None:
        """None: only Arrow's client reaches it."""
        if name not in self._buckets:
            from iceberg_compaction.storage.s3 import plain_requests  # files on local disks need no HTTP client

            options = file_system.__reduce__()[1][0]
            pace = request_pace.of_properties(self._io.properties)
            self._buckets[name] = plain_requests.bucket_of(options, name, self.count, pace)
        return self._buckets[name]

    def close_way(self, name: str) -> None:
        """The store refuses plain requests. Arrow's client is used from now on; it may fail as well, and then says
        why."""
        self._buckets[name] = None


class ObjectFile(PyArrowFile):
    """A file in an object store."""

    def __init__(self, store: _Store, plain: PyArrowFile, bucket: str | None) -> None:
        super().__init__(plain.location, plain._path, plain._filesystem, plain._buffer_size)
        self._store = store
        self._name = bucket  # None: not in S3
        self._key = plain._path.partition("/")[2]

    def open(self, seekable: bool = True) -> object_reader.ObjectReader:
        """The file, without a request: a missing file is noticed by the first read."""
        return object_reader.ObjectReader(
            object_reader.ObjectSource(
                key=self.location,
                kept=self._store.kept,
                get=self._get,
                open_native=self.open_native,
                count=self._store.count,
            )
        )

    def open_native(self) -> Any:
        """Arrow's own file."""
        self._store.count.add(heads=1)
        return super().open()

    def create(self, overwrite: bool = False) -> object_writer.ObjectWriter:
        """A new file. FileExistsError: the name is taken; closing raises it, except where Arrow's client must look."""
        if not overwrite and self._bucket() is None and self.exists():
            raise self._taken()
        self._store.kept.drop(self.location)
        return object_writer.ObjectWriter(
            object_writer.ObjectTarget(
                put=lambda body: self._put(body, overwrite=overwrite), begin=self._begin, ended=self._count_upload
            )
        )

    def __len__(self) -> int:
        answer = self._ask("head")
        if answer is not None and (size := answer.headers.get("Content-Length", "")).isdigit():
            return int(size)
        self._store.count.add(heads=1)
        return super().__len__()

    def facts(self) -> Mapping[str, str]:
        answer = self._ask("head")
        return {} if answer is None else {name.lower(): value for name, value in answer.headers.items()}

    def exists(self) -> bool:
        try:
            return len(self) >= 0
        except FileNotFoundError:
            if self._bucket() is None:
                self._store.count.add(lists=1)  # Arrow asks whether it is a folder
            return False

    def delete(self) -> bool:
        """Whether the file was deleted; if not, Arrow's client must do it."""
        self._store.kept.drop(self.location)
        if self._ask("delete") is not None:
            return True
        self._store.count.add(heads=1, deletes=1)
        return False

    @property
    def key(self) -> str:
        return self._key

    @property
    def bucket(self) -> plain_requests.Bucket | None:
        """None: only Arrow's client reaches it."""
        return self._bucket()

    def _bucket(self) -> plain_requests.Bucket | None:
        return None if self._name is None else self._store.bucket(self._name, self._filesystem)

    def _get(self, span: str | None) -> plain_requests.Answer | None:
        answer = self._ask("get", span)
        if answer is None or answer.covers(span):
            return answer
        assert self._name is not None
        self._store.close_way(self._name)
        return None

    def _ask(self, act: str, *given: Any) -> plain_requests.Answer | None:
        """The answer of the store; None: Arrow's client must be used."""
        if self._name is None or (bucket := self._bucket()) is None:
            return None
        answer: plain_requests.Answer = getattr(bucket, act)(self._key, *given)
        if answer.status == 404:
            raise FileNotFoundError(f"Cannot open file, does not exist: {self.location}")
        if answer.status in _DONE:
            return answer
        if b"InvalidObjectState" in answer.body:  # it must be restored first; no other client would read it
            raise OSError(f"AWS Error INVALID_OBJECT_STATE during {act} of {self.location}")
        self._store.close_way(self._name)
        return None

    def _put(self, body: bytes, *, overwrite: bool) -> None:
        if self._name is not None and (bucket := self._bucket()) is not None:
            answer = bucket.put(self._key, body, overwrite=overwrite)
            if answer.status == 200:
                return
            if answer.tries > 1 and self._holds(body):
                return  # a try before the last had arrived after all
            if answer.status == 412:
                raise self._taken()
            self._store.close_way(self._name)
            if not overwrite and self.exists():
                raise self._taken()
        with self._begin() as upload:
            upload.write(body)
        self._count_upload(len(body))

    def _holds(self, body: bytes) -> bool:
        try:
            with self.open() as stream:
                return stream.readall() == body
        except FileNotFoundError:
            return False
        finally:
            self._store.kept.drop(self.location)  # whoever checks the file later reads what is stored then

    def _begin(self) -> Any:
        # Nobody looks whether the name is taken: files that are large have names with a random id, see `file_names`.
        return super().create(overwrite=True)

    def _count_upload(self, size: int) -> None:
        self._store.count.add(puts=2, parts=max(1, math.ceil(size / object_writer.PART)))

    def _taken(self) -> FileExistsError:
        return FileExistsError(f"Cannot create file, already exists: {self.location}")

"""An S3 with storage classes and lifecycle rules, which SeaweedFS has not: moto's server, in a thread of this process.
It does not check signatures."""

from __future__ import annotations

import contextlib
import logging
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import urllib3
from pyiceberg.catalog.sql import SqlCatalog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class MotoStore:
    """A running store."""

    endpoint: str

    @property
    def properties(self) -> dict[str, str]:
        return {
            "s3.endpoint": self.endpoint,
            "s3.access-key-id": "key",
            "s3.secret-access-key": "secret",
            "s3.region": "us-east-1",
        }

    def make_lake(self, folder: Path) -> tuple[SqlCatalog, str]:
        """A catalog whose tables are in a bucket of its own, and the bucket."""
        bucket = f"b{uuid.uuid4().hex[:12]}"
        self.ask("PUT", bucket)
        catalog = SqlCatalog(
            "default", uri=f"sqlite:///{folder}/{bucket}.db", warehouse=f"s3://{bucket}", **self.properties
        )
        catalog.create_namespace("db")
        return catalog, bucket

    def ask(self, method: str, path: str, body: str = "", **headers: str) -> None:
        """A request that the store must take."""
        names = {"authorization": "AWS key:secret"}  # it must be there, whatever it says
        names |= {name.replace("_", "-"): value for name, value in headers.items()}
        answer = urllib3.request(method, f"{self.endpoint}/{path}", body=body.encode(), headers=names)
        assert answer.status < 300, (answer.status, answer.data)

    def move(self, path: str, storage_class: str) -> None:
        """Moves an object to a storage class, as a rule of its bucket would."""
        key = path.removeprefix("s3://")
        self.ask("PUT", key, x_amz_copy_source=f"/{key}", x_amz_storage_class=storage_class)

    def restore(self, path: str) -> None:
        self.ask("POST", f"{path.removeprefix('s3://')}?restore", "<RestoreRequest><Days>1</Days></RestoreRequest>")

    def set_rules(self, bucket: str, rules: str) -> None:
        """The lifecycle rules of a bucket, as XML."""
        self.ask("PUT", f"{bucket}?lifecycle", f"<LifecycleConfiguration>{rules}</LifecycleConfiguration>")


def data_paths(table: Table) -> list[str]:
    return sorted(task.file.file_path for task in table.refresh().scan().plan_files())


@contextlib.contextmanager
def moto_store() -> Iterator[MotoStore]:
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield MotoStore(endpoint=f"http://{host}:{port}")
    finally:
        server.stop()

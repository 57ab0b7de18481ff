"""Fixtures shared by all tests: lakes to work on. Servers start once per run, and every test has its own namespace."""

from __future__ import annotations

import os
import shutil
import signal
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.factories import examples, servers, shortcuts
from tests.factories import lake as lakes
from tests.factories.spark import spark  # noqa: F401 - a fixture
from tests.factories.stores import every_place, store_server  # noqa: F401 - fixtures

if TYPE_CHECKING:
    from collections.abc import Iterator

_LAB = Path(__file__).parent / "lab"
_NEEDS = {"spark": pytest.mark.spark, "s3_server": pytest.mark.server}
# What a developer has configured on the machine must not leak into a test, nor a test write to a real lake.
_FOREIGN = ("AWS_", "CATALOG_", "COLUMNS", "OTEL_", "PYICEBERG_", "TRACEPARENT", "REDIS_URL", "STORE_URL")

# SQLite waits for the disk at every commit, and tests commit many thousand times. What lies in memory is as safe from a
# process that dies; the power does not fail here.
_MEMORY = Path("/dev/shm")
_MEMORY_BYTES = 4 << 30

# Lab and interop take libraries as they are.
_WHOLE = ("lab", "interop")

examples.load_profile()


def pytest_configure(config: pytest.Config) -> None:
    """Folders of tests are in memory where there is enough of it. Ctrl-C is heard, by processes of the tests as well:
    a shell that starts the tests in the background has it ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not config.getoption("markexpr").startswith(_WHOLE):
        shortcuts.install()
    if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= _MEMORY_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of tests/lab is the lab, and who uses a JVM or a server needs it."""
    for item in items:
        if _LAB in item.path.parents:
            item.add_marker(pytest.mark.lab)
        for fixture, marker in _NEEDS.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(marker)


@pytest.fixture(scope="session", autouse=True)
def _own_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for variable in [name for name in os.environ if name.startswith(_FOREIGN)]:
            patch.delenv(variable)
        patch.setenv("ICEBERG_COMPACTION_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("ICEBERG_COMPACTION_STATE", str(tmp_path_factory.mktemp("state") / "runs.db"))
        patch.setenv("PYICEBERG_HOME", str(tmp_path_factory.mktemp("no-pyiceberg-config")))
        patch.setenv(
            "AWS_EC2_METADATA_DISABLED", "true"
        )  # else the S3 client asks the cloud for credentials, and waits
        yield


@pytest.fixture
def local_lake(tmp_path: Path) -> Iterator[lakes.Lake]:
    """SQLite catalog, files in a folder."""
    lake = lakes.file_lake(tmp_path / "lake")
    yield lake
    lake.catalog.close()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[servers.S3Server]:
    """SeaweedFS: S3 and Iceberg REST catalog."""
    with servers.seaweedfs() as server:
        yield server


@pytest.fixture
def s3_lake(s3_server: servers.S3Server) -> Iterator[lakes.Lake]:
    """REST catalog, files in S3. Tests that use it carry the marker `server`."""
    lake = lakes.rest_lake(s3_server, namespace=f"t{uuid.uuid4().hex[:12]}")
    yield lake
    lake.catalog.close()


@pytest.fixture(params=["file+sqlite", pytest.param("s3+rest", marks=pytest.mark.server)])
def lake(request: pytest.FixtureRequest) -> lakes.Lake:
    """The same test on both kinds of lake."""
    found = request.getfixturevalue("local_lake" if request.param == "file+sqlite" else "s3_lake")
    assert isinstance(found, lakes.Lake)
    return found

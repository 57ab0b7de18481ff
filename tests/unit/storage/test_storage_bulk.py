"""Files are deleted in bulk where the store takes that: what it refuses is tried alone, and what stays is returned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from iceberg_compaction.storage import remove
from iceberg_compaction.storage.s3 import bulk_remove, object_files, plain_requests

if TYPE_CHECKING:
    from pathlib import Path

PROOF = remove.RemovalProof.EXPIRED
AT_ONCE = bulk_remove.Pace(per_second=None, clock=lambda: 0, pause=lambda seconds: None)


def nothing() -> None:
    """Nobody cancels."""


@pytest.mark.parametrize(
    ("answer", "stay"),
    [
        (b"<DeleteResult/>", {}),
        (b'<DeleteResult xmlns="http://x/2006-03-01/"><Deleted><Key>a</Key></Deleted></DeleteResult>', {}),
        (
            b"<DeleteResult><Error><Key>a/b</Key><Code>AccessDenied</Code></Error>"
            b"<Error><Key>c</Key><Code>NoSuchKey</Code></Error></DeleteResult>",
            {"a/b": "AccessDenied"},
        ),
        (b"<Error><Code>NotImplemented</Code></Error>", None),
        (b"not XML", None),
        (b"", None),
    ],
)
def test_the_answer_of_a_store_is_read(answer: bytes, stay: dict[str, str] | None) -> None:
    assert plain_requests._kept(answer) == stay


def test_what_the_store_refuses_is_tried_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    alone: list[str] = []

    def remove_files(io: Any, paths: Any, proof: Any) -> tuple[str, ...]:
        alone.extend(paths)
        return ("s3://b/2",)

    monkeypatch.setattr(object_files, "remove_many", lambda io, paths: {"s3://b/1": "SlowDown", "s3://b/2": "Denied"})
    monkeypatch.setattr(remove, "remove_files", remove_files)
    paths = [f"s3://b/{number}" for number in range(5)]
    result = bulk_remove.remove_in_bulk(PyArrowFileIO(), paths, PROOF, AT_ONCE, nothing)
    assert alone == ["s3://b/1", "s3://b/2"]
    assert (result.removed, result.failed, result.named) == (4, 1, ["s3://b/2"])


@pytest.mark.parametrize("trouble", [None, OSError("the way is broken")])
def test_a_store_without_such_requests_is_asked_for_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: Exception | None
) -> None:
    def remove_many(io: Any, paths: Any) -> None:
        if trouble is not None:
            raise trouble

    monkeypatch.setattr(object_files, "remove_many", remove_many)
    files = [tmp_path / str(number) for number in range(3)]
    for file in files:
        file.touch()
    result = bulk_remove.remove_in_bulk(PyArrowFileIO(), map(str, files), PROOF, AT_ONCE, nothing)
    assert (result.removed, result.failed) == (3, 0)
    assert not any(file.exists() for file in files)


def test_a_pace_is_kept(tmp_path: Path) -> None:
    now = [0.0]

    def pause(seconds: float) -> None:
        now[0] += seconds

    pace = bulk_remove.Pace(per_second=10, clock=lambda: round(1000 * now[0]), pause=pause)
    paths = [str(tmp_path / str(number)) for number in range(100)]
    assert bulk_remove.remove_in_bulk(PyArrowFileIO(), paths, PROOF, pace, nothing).removed == 100
    assert now[0] == pytest.approx(9.0)  # the last ten need no wait after them

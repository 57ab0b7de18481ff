"""What is worth trying again, how often and for how long."""

from __future__ import annotations

import dataclasses
import errno
from types import SimpleNamespace
from typing import Any

import pytest

from iceberg_compaction import errors
from iceberg_compaction.storage import file_io, passing_faults, vended_credentials

# As Arrow's file systems say it.
PASSING = [
    OSError("AWS Error SLOW_DOWN during GetObject operation: Please reduce your request rate."),
    OSError("When uploading part: AWS Error UNKNOWN (HTTP status 502) during UploadPart operation: "),
    OSError("AWS Error INTERNAL_FAILURE during GetObject operation: We encountered an internal error."),
    OSError("AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 28, Timeout was reached"),
    OSError("AWS Error NETWORK_CONNECTION: curlCode: 18, Transferred a partial file"),
    OSError("AWS Error NO_SUCH_UPLOAD during CompleteMultipartUpload operation: it does not exist"),
    OSError("google::cloud::Status(UNAVAILABLE: Retry policy exhausted)"),
    OSError("GetProperties failed. Azure Error: [ServerBusy] 503 The server is busy."),
    OSError(errno.ETIMEDOUT, "timed out"),
    TimeoutError("slow"),
    ConnectionResetError("gone"),
]
LASTING = [
    FileNotFoundError(errno.ENOENT, "Path does not exist"),
    PermissionError("AWS Error [code 15]: timed out, as its text says, but refused"),
    FileExistsError("there"),
    OSError(errno.ENOSPC, "No space left on device"),
    OSError("AWS Error ACCESS_DENIED during PutObject operation: Access Denied."),
    OSError("Couldn't deserialize thrift: TProtocolException: Invalid data"),
    OSError("storage holds 5 bytes of s3://lake/t/m.avro where 10 were written"),
    ValueError("timeout"),
    errors.ProofError("other rows"),
    passing_faults.LastingFault("curlCode: 28 (tried 5 times in 93 s)"),
]
EXPIRED = [
    OSError("AWS Error UNKNOWN (HTTP status 400) during GetObject: Unable to parse ExceptionName: ExpiredToken"),
    OSError(
        "When reading information: AWS Error UNKNOWN (HTTP status 400) during HeadObject operation: No response body."
    ),
    OSError("AWS Error ACCESS_DENIED during HeadObject operation: No response body."),
    OSError("AWS Error UNKNOWN (HTTP status 400) during GetObject operation: "),
    OSError("AWS Error INVALID_ACCESS_KEY_ID during GetObject operation: unknown"),
    OSError("google::cloud::Status(UNAUTHENTICATED: Permanent error in Read())"),
    OSError("Azure Error: [AuthenticationFailed] 403 Server failed to authenticate the request."),
    PermissionError("The provided token has expired."),
]


class Clock:
    """Time that passes only when somebody waits."""

    def __init__(self) -> None:
        self.now, self.waits = 0.0, [0.0] * 0

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.waits.append(seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def patient(clock: Clock, **more: float) -> passing_faults.Patience:
    usual = passing_faults.Patience(sleep=clock.sleep, clock=lambda: clock.now, random=lambda: 1.0)
    return dataclasses.replace(usual, **more)


@pytest.mark.parametrize("error", PASSING, ids=str)
def test_what_passes_is_tried_again_also_when_it_was_translated(error: OSError, clock: Clock) -> None:
    told = errors.ExecuteError("Data file x is not readable")
    told.__cause__ = error
    assert passing_faults.is_passing(error)
    assert passing_faults.is_passing(told)
    assert not passing_faults.is_expired(error)
    faults = [error, error]

    def act() -> str:
        if faults:
            raise faults.pop()
        return "done"

    assert passing_faults.patiently(act, patient(clock)) == "done"
    assert clock.waits == [0.4, 0.8]


@pytest.mark.parametrize("error", LASTING, ids=str)
def test_what_stays_true_is_never_asked_again(error: Exception, clock: Clock) -> None:
    calls = []

    def act() -> None:
        calls.append(1)
        raise error

    with pytest.raises(type(error)) as caught:
        passing_faults.patiently(act, patient(clock))
    assert caught.value is error
    assert (len(calls), clock.waits) == (1, [])
    assert not passing_faults.is_expired(error)


@pytest.mark.parametrize("error", EXPIRED, ids=str)
def test_credentials_that_may_have_expired_are_asked_for_once_more(error: OSError, clock: Clock) -> None:
    """R59: storage does not always say that they have."""
    calls = []

    def act() -> None:
        calls.append(1)
        raise error

    assert passing_faults.is_expired(error)
    assert not passing_faults.is_passing(error)
    with pytest.raises(OSError, match=r".") as caught:
        passing_faults.patiently(act, patient(clock))
    assert caught.value is error
    assert (len(calls), clock.waits) == (2, [])


def test_patience_has_an_end_which_is_told(clock: Clock) -> None:
    def act() -> None:
        clock.now += 50
        raise TimeoutError("no answer")

    with pytest.raises(passing_faults.LastingFault, match=r"no answer \(tried 3 times in 151 s\)") as caught:
        passing_faults.patiently(act, patient(clock))
    assert isinstance(caught.value.__cause__, TimeoutError)
    assert clock.now < passing_faults.USUAL.total + 50, "no try begins later"


def test_an_error_that_is_its_own_cause_is_judged() -> None:
    error = errors.ExecuteError("odd")
    error.__cause__ = error
    assert not passing_faults.is_passing(error)


@pytest.mark.parametrize(
    "given",
    [
        {"s3.access-key-id": "ASIA", "s3.secret-access-key": "s", "s3.session-token": "t"},
        {"gcs.oauth2.token": "ya29", "gcs.oauth2.token-expires-at": "1"},
        {"adls.sas-token.lake.dfs.core.windows.net": "sig"},
    ],
    ids=["s3", "google", "azure"],
)
def test_credentials_are_vended_if_they_are_not_the_catalogs_own(given: dict[str, str]) -> None:
    own = {"s3.endpoint": "http://here", "token": "catalog's"}
    table: Any = SimpleNamespace(catalog=SimpleNamespace(properties=own), io=SimpleNamespace(properties=own | given))
    assert vended_credentials.is_vended(table)
    assert file_io.io_properties(table) == {"s3.endpoint": "http://here"} | given
    table.catalog.properties = own | given
    assert not vended_credentials.is_vended(table)

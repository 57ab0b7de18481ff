"""Faults that pass: a file store or network that is slow, busy or hangs up for a moment. An act comes in and is done
again after such a fault, with growing waits, up to a limit of tries and time. What stays true however often one asks
(no such file, no permission, damaged content) is never asked again."""

from __future__ import annotations

import errno
import logging
import random as randomness
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_log = logging.getLogger(__name__)
T = TypeVar("T")

_ERRNOS = frozenset(
    getattr(errno, name)
    for name in (
        *("EAGAIN", "EBUSY", "EINTR", "EIO", "ESTALE", "ETIMEDOUT", "EPIPE", "ECONNRESET", "ECONNREFUSED"),
        *("ECONNABORTED", "ENETDOWN", "ENETUNREACH", "ENETRESET", "EHOSTDOWN", "EHOSTUNREACH"),
    )
    if hasattr(errno, name)
)
# Arrow makes of whatever a store says an OSError without a number: the words of S3, Google's and Azure's clients. That
# an upload is gone is what S3 says to a client that was not told that it is complete.
_PASSING = re.compile(
    r"curlcode|network_connection|slow_?down|throttl|request_?time_?out|timed out|timeout was reached|internal_failure|"
    r"internal_?error|service_?unavailable|server ?busy|too ?many ?requests|connection (reset|aborted|closed|refused)|"
    r"no_?such_?upload|http status (408|429|5\d\d)|\] (408|429|5\d\d)\b|"
    r"status\((unavailable|deadline_exceeded|resource_exhausted|internal)",
    re.IGNORECASE,
)
# An answer to HEAD has no body, and Arrow does not always read that of GET, so that S3 cannot say there that it was the
# token: 400 and 403 may mean just that.
_EXPIRED = re.compile(
    r"expired_?token|token (has |is )?expired|expired token|token_refresh_required|invalid_?access_?key_?id|"
    r"invalid_?client_?token|request_?expired|(http status 40[0-3]\)|access_denied) during headobject|"
    r"aws error unknown \(http status 40[0-3]\) during getobject|"
    r"status\(unauthenticated|authenticationfailed|signature not valid in the specified time frame",
    re.IGNORECASE,
)
# Other clients' errors that are no OSErrors, by library and class.
_CLASSES = frozenset(
    {"botocore.HTTPClientError", "aiohttp.ClientError", "azure.ServiceRequestError", "thrift.TTransportException"}
)
_ASKED_AGAIN = frozenset({"requests.RequestException"})


class LastingFault(OSError):
    """What should have passed did not, however often it was tried."""


class EndedEarly(OSError):
    """Fewer bytes came than a file has."""


_FINAL = (LastingFault, FileNotFoundError, PermissionError, FileExistsError, IsADirectoryError, NotADirectoryError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How often and how long to try. Waits double from `first` to `longest` seconds and are shortened by chance, so
    that many who failed together do not come back together; no try begins after `total` seconds."""

    retries: int = 4
    first: float = 0.4
    longest: float = 10.0
    total: float = 120.0
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = randomness.random
    clock: Callable[[], float] = time.monotonic

    def waits(self) -> Iterator[float]:
        """Seconds before each retry. Time counts from now on, what is done between them included."""
        return self._waits(self.clock())

    def _waits(self, started: float) -> Iterator[float]:
        for number in range(self.retries):
            wait = min(self.longest, self.first * 2**number) * (0.5 + 0.5 * self.random())
            if self.clock() - started + wait > self.total:
                return
            yield wait


USUAL = Patience()


def patiently(
    act: Callable[[], T],
    patience: Patience | None = None,
    *,
    give_up: Callable[[Exception], bool] = lambda error: False,
) -> T:
    """What the act returns, tried again after faults that pass. Raises LastingFault when they do not, and every other
    error as it is, one that `give_up` tells from them included. The act must bear being done twice."""
    patience = patience or USUAL
    started, tries = patience.clock(), 0
    waits = patience.waits()
    while True:
        tries += 1
        try:
            return act()
        except Exception as error:
            if not is_passing(error) or give_up(error):
                # At once, and once: whoever opens a file again gets fresh credentials, if there are any.
                if tries == 1 and (isinstance(error, EndedEarly) or is_expired(error)):
                    continue
                raise
            if (wait := next(waits, None)) is None:
                seconds = patience.clock() - started
                raise LastingFault(f"{first_line(error)} (tried {tries} times in {seconds:.0f} s)") from error
            _log.info("Trying again in %.1f s after a fault that may pass: %s", wait, type(error).__name__)
            patience.sleep(wait)


def is_passing(error: BaseException | None) -> bool:
    """Whether the same may succeed in a moment. An error that was translated is judged by what it came from."""
    for cause in _causes(error):
        # What was asked of a catalog over HTTP was asked again where it was sent, see `rest`.
        if isinstance(cause, _FINAL) or _is_of(cause, _ASKED_AGAIN):
            return False
        if isinstance(cause, TimeoutError | ConnectionError) or _is_of(cause, _CLASSES):
            return True
        if getattr(cause, "connection_invalidated", False):  # SQLAlchemy's word for a database that hung up
            return True
        if isinstance(cause, OSError):
            return cause.errno in _ERRNOS or (cause.errno is None and _PASSING.search(str(cause)) is not None)
    return False


def is_expired(error: BaseException | None) -> bool:
    """Whether fresh credentials may help."""
    return any(
        isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError) and _EXPIRED.search(str(cause))
        for cause in _causes(error)
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:  # an error may be its own cause
        seen.add(id(error))
        yield error
        error = error.__cause__


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _is_of(error: BaseException, names: frozenset[str]) -> bool:
    return any(f"{kind.__module__.partition('.')[0]}.{kind.__name__}" in names for kind in type(error).__mro__)

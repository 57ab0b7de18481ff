"""The door between the run store and the place that keeps it: ordered keys with text, and changes that are atomic.
Every server that a store may be in offers as much, so that the rules of runs, leases, checkpoints and events are
written once, above this door. tests/contract/test_entries.py holds every implementation to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

MOST_KEYS = 100  # of one change: etcd takes 128 operations
LONGEST_VALUE = 512 * 1024  # in bytes of UTF-8
MOST_BYTES = 1024 * 1024  # of all values of one change: etcd takes requests of 1.5 MB


class StoreEntry(NamedTuple):
    """A key with its text. `version` differs from all others that the key ever had, also in a store that was lost."""

    key: str
    value: str
    version: int


class StoreEntries(Protocol):
    """Keys are text without control characters, ordered by their UTF-8 bytes. Words of a key are separated by `/`, and
    a word with other characters than letters, digits, `-`, `_` and `.` is quoted, see `keys`.

    - Concurrency: threads and processes call any method at any time; an object survives a fork.
    - Crashes: a change is durable when the method returns, as far as the server is. Whoever dies inside `change` leaves
      all of it or nothing.
    - Reading a place that does not exist gives nothing and creates nothing.
    - Any trouble is a StoreError. After one from `change`, nobody knows whether the change was made.
    """

    def get(self, keys: Sequence[str]) -> dict[str, StoreEntry]:
        """The entries of these keys that exist, as of one moment if there are at most MOST_KEYS."""
        ...

    def scan(
        self, prefix: str, *, after: str = "", limit: int | None = None, reverse: bool = False
    ) -> list[StoreEntry]:
        """The entries whose keys begin with the prefix, in order, as of one moment if there are at most `limit`.
        `after`: only those that come after this key, in the direction of the scan."""
        ...

    def change(self, values: Mapping[str, str | None], expected: Mapping[str, int | None] | None = None) -> bool:
        """Write all values, None to remove a key, if each expected key has this version, None if it must not exist.
        False: one has not, and nothing was written. At most MOST_KEYS keys, expected ones included, of at most
        LONGEST_VALUE bytes each and MOST_BYTES together."""
        ...

    def close(self) -> None:
        """Give connections back. Another call opens them again."""
        ...


@runtime_checkable
class StaysOpen(Protocol):
    """A place that opens a connection for each call, unless it is asked to keep one."""

    def stay_open(self) -> AbstractContextManager[None]:
        """Keep it until the end of the `with`. Calls may overlap."""
        ...


@runtime_checkable
class MayVanish(Protocol):
    """A place that anybody may take away, and that the next change would make anew, empty."""

    def hold(self) -> None:
        """From now on only the store that is there now counts, created if there is none: if it is gone or another one,
        every call raises StoreGoneError, until it is back."""
        ...

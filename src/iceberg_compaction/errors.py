"""Every error this product raises on purpose, as one tree. Third-party errors are translated into it once, at the
border where they appear, with the cause chained. Each class says whether trying again could help.

    CompactionError
    ├── ConfigError              wrong option, setting or argument
    │   └── SetupError             this machine or cluster lacks something: Java, Spark, a driver
    ├── StoreError               the run store could not be read or written (retryable)
    │   ├── ForeignStoreError      the file is not a run store
    │   └── StoreGoneError         the file is not the one any more that a service began with (retryable)
    ├── LeasedError              another run is at work there (retryable)
    ├── QueueFullError           too much work of a tenant waits already (retryable)
    ├── LostWorkError            another worker has taken the work over
    ├── CatalogError             the catalog refused or could not be used
    │   ├── UnreachableError       no answer (retryable)
    │   │   └── WrongStoreError      an answer from another place: no such bucket, another region, no TLS
    │   ├── UnauthorizedError      credentials missing or refused
    │   └── NoSuchTableError       no table of that name
    ├── MetadataError            table metadata is missing, damaged or contradicts itself
    ├── UnsupportedError         a table that must not be touched yet; nothing was written
    ├── MaintainedError          another tool takes care of the table, and the policy refuses that
    ├── RefusedError             the work looks so odd that a person must say that it is meant
    ├── DeclinedError            the policy says that nothing is done to the table, or not now
    ├── StalePlanError           the table has moved away from the plan
    ├── ExecuteError             a rewrite task failed
    │   ├── DamagedFileError       a file of the table is missing, damaged, or not what its manifest says
    │   └── ProofError             the rows written are not the rows read; they were not committed
    ├── CommitError              the table was not changed
    │   ├── ConflictError          somebody else changed what the commit depends on (retryable)
    │   │   └── NothingLeftError     ... and nothing is left to commit
    │   ├── DefectError            our own code failed before anything was published
    │   └── StateUnknownError      the catalog did not say whether the commit landed (never retried blindly)
    ├── AccessError              the service does not let somebody do something
    │   ├── UnauthenticatedError   nobody knows who asks
    │   ├── ForbiddenError         the role or the tenant does not allow it
    │   └── TooManyError           too much was asked for, for now (retryable)
    └── CancelledError           stopped on request
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping


class CompactionError(Exception):
    """Root of the tree. The message is one sentence for a person: what is wrong, where, what to do."""

    retryable: ClassVar[bool] = False
    path: str | None = None  # the file that it is about, where it is about one


class ConfigError(CompactionError):
    """A wrong option, setting or argument; nothing was started."""


class SetupError(ConfigError):
    """This machine or cluster lacks something, such as Java, Spark or a driver. No table can be worked on, but the
    request was right."""


class StoreError(CompactionError):
    """The run store could not be read or written. No table is affected."""

    retryable = True


class ForeignStoreError(StoreError):
    """The file that should be the run store is something else. It is neither read nor written."""

    retryable = False


class StoreGoneError(StoreError):
    """The file of the run store was moved, deleted or replaced under a service. No new one is made."""


class LeasedError(CompactionError):
    """Another run is at work on what this one wants, or was since the plan was made; nothing was written."""

    retryable = True


class QueueFullError(CompactionError):
    """Too much work of a tenant waits in the queue of a service; nothing was added."""

    retryable = True


class LostWorkError(CompactionError):
    """A worker was silent for so long that another one has its work."""


class CatalogError(CompactionError):
    """The catalog refused a request or could not be used."""


class UnreachableError(CatalogError):
    """The catalog or the object store did not answer."""

    retryable = True


class WrongStoreError(UnreachableError):
    """The settings lead to a place that is not the store: no such bucket, another region, no TLS or no trust."""

    retryable = False


class UnauthorizedError(CatalogError):
    """Credentials are missing, wrong or not sufficient."""


class NoSuchTableError(CatalogError):
    """There is no table of that name."""


class MetadataError(CompactionError):
    """Table metadata is missing, damaged or contradicts itself; no decision is made from half a picture."""


class UnsupportedError(CompactionError):
    """The table has a feature that cannot be rewritten safely yet; nothing was written."""


class MaintainedError(CompactionError):
    """Another tool rewrites the table, and the policy refuses such a table; nothing was written."""


class RefusedError(CompactionError):
    """The work looks so odd that a person must say that it is meant; nothing was changed."""


class DeclinedError(CompactionError):
    """The policy of the table says that nothing is done to it, or not now; nothing was written."""


class StalePlanError(CompactionError):
    """The table has moved away from the state that the plan was made on."""


class ExecuteError(CompactionError):
    """A rewrite task failed; its outputs were removed, but for those in `left`, and its group was not committed."""

    left: tuple[str, ...] = ()


class DamagedFileError(ExecuteError):
    """A file of the table is missing, damaged, or not what its manifest says. Its group fails, others do not."""


class ProofError(ExecuteError):
    """The rows written are not the rows read; they were not committed."""


class CommitError(CompactionError):
    """The commit was refused; the table is unchanged."""


class ConflictError(CommitError):
    """Somebody else changed what the commit depends on. `conflicts`: the groups by id, each with a sentence, where it
    was for reasons of their own that none of them could land."""

    retryable = True

    def __init__(self, message: str, *, conflicts: Mapping[int, str] | None = None) -> None:
        super().__init__(message)
        self.conflicts = dict(conflicts or {})


class DefectError(CommitError):
    """Our own code failed before anything was published. What it failed with is chained."""


class NothingLeftError(ConflictError):
    """Somebody else has done all that the commit was for."""


class StateUnknownError(CommitError):
    """The catalog did not say whether the commit landed; nothing may be deleted until that is known."""


class AccessError(CompactionError):
    """The service does not let somebody do something; nothing was done."""


class UnauthenticatedError(AccessError):
    """No token, or one that is unknown, over or revoked. The sentence does not say which."""


class ForbiddenError(AccessError):
    """The role of whoever asks is not enough for it."""


class TooManyError(AccessError):
    """Too many requests, or too much work that waits. `retry_after_s`: when it is worth to try again."""

    retryable = True

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class CancelledError(CompactionError):
    """Stopped on request; what was committed before stays, and nothing else is left behind."""

    outcome: object | None = None  # of the run that it has stopped

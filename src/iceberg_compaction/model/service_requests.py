"""What clients ask a service for: the bodies of its requests, which the client of the library writes."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from iceberg_compaction.model.principal import Role
from iceberg_compaction.model.table_policy import Seconds
from iceberg_compaction.model.value import Value

TableName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=1000,
        description="namespace.table; a bare name if one namespace alone has such a table",
    ),
]
# An option as a flag or a policy file has it.
OptionValue = None | bool | int | float | str | list[str | int | float] | dict[str, str | int | float | bool | None]
Options = Annotated[dict[str, OptionValue], Field(max_length=200)]


class UpkeepOrder(Value):
    """Upkeep of one table."""

    table: TableName
    catalog: Annotated[str | None, Field(max_length=200, description="default: the first of the service")] = None
    options: Annotated[Options, Field(description="as the command has them, such as older_than")] = {}
    priority: Annotated[int, Field(ge=0, le=9, description="9 comes first")] = 5
    dry_run: Annotated[bool, Field(description="answer with the plan, and do nothing")] = False


class CompactOrder(UpkeepOrder):
    """The rewrite of a table's files."""

    strategy: Annotated[str | None, Field(max_length=200, description="default: as the policy says")] = None
    options: Annotated[
        Options, Field(description='options of `run`, such as {"target_file_size": "1GB", "max_cost": 10.0}')
    ] = {}


class UndoOrder(Value):
    """The undo of a run."""

    despite_differences: Annotated[bool, Field(description="even if its files do not have the same rows")] = False
    dry_run: bool = False


class BlockerOrder(Value):
    """A writer wants peace: no work begins on the table until then."""

    seconds: Annotated[Seconds, Field(gt=0, le=30 * 86400, description="how long, in seconds or as text such as 2h")]
    reason: Annotated[str, Field(max_length=500)] = ""


class PauseOrder(Value):
    """Schedules to pause or to resume."""

    tables: Annotated[
        str, Field(min_length=1, max_length=500, description="a table, a namespace, or a pattern such as shop.*")
    ]
    catalog: Annotated[str | None, Field(max_length=200, description="default: all catalogs")] = None


class ChangeNotice(Value):
    """A writer tells that it has changed a table."""

    table: TableName
    catalog: Annotated[str | None, Field(max_length=200)] = None


class _Foreign(Value):
    """A part of a message that others define: further fields do not matter."""

    model_config = ConfigDict(extra="ignore")


class BucketName(_Foreign):
    """The bucket of an event."""

    name: Annotated[str, Field(min_length=1, max_length=255)]


class BucketObject(_Foreign):
    """The object of an event."""

    key: Annotated[str, Field(min_length=1, max_length=4096)]


class BucketEntity(_Foreign):
    """Where an event of a bucket happened."""

    bucket: BucketName
    object: BucketObject


class BucketRecord(_Foreign):
    """One event, as S3 and stores like it send it."""

    s3: BucketEntity


class BucketEvents(_Foreign):
    """Events of a bucket, as S3, MinIO and others send them."""

    records: Annotated[tuple[BucketRecord, ...], Field(alias="Records", max_length=1000)]


class BridgeEvent(_Foreign):
    """The same as Amazon EventBridge sends it."""

    detail: BucketEntity


class TokenOrder(Value):
    """A token to make."""

    name: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
    role: Role
    tenants: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] | None,
        Field(max_length=1000, description="default: all"),
    ] = None
    seconds: Annotated[
        Seconds | None, Field(gt=0, le=10 * 366 * 86400, description="how long it holds; null: for ever")
    ] = 90 * 86400.0

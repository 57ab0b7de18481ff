"""The library's front door: a `Compactor` bound to a catalog and a policy. It translates arguments into the values that
the workflow takes, and nothing more."""

from __future__ import annotations

import time
import uuid
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from iceberg_compaction import errors
from iceberg_compaction.catalog import connect, tables
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model import policy as policies
from iceberg_compaction.settings import CatalogSettings
from iceberg_compaction.workflow import run as runs
from iceberg_compaction.workflow import tables as work

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from pyspark.sql import SparkSession

    from iceberg_compaction.execute.engine import Engine
    from iceberg_compaction.model.outcome import Event, Outcome
    from iceberg_compaction.model.plan import Plan
    from iceberg_compaction.model.table import TableHealth

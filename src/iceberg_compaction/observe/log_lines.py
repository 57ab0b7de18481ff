"""Log records as lines of JSON, for collectors of logs: time, level, logger, message, and the run, table and span that
a line belongs to. Texts pass through a filter of secrets before they are quoted."""

from __future__ import annotations

import json
import logging
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from iceberg_compaction.observe import run_scope
from iceberg_compaction.observe.tracing import spans

if TYPE_CHECKING:
    from collections.abc import Callable


class JsonLines(logging.Formatter):
    """`clean`: a text without secrets."""

    def __init__(self, clean: Callable[[str], str]) -> None:
        super().__init__()
        self._clean = clean

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, timezone.utc)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._clean(record.getMessage()),
        }
        if (scope := run_scope.current()) is not None:
            line |= {"run_id": scope.run_id, "table": scope.table}
        if (ids := spans.open_ids()) is not None:
            line |= {"trace_id": ids[0], "span_id": ids[1]}
        if record.exc_info:
            line["traceback"] = self._clean(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False)

"""The run that a person means by RUN at a service: its id, the beginning that `history` shows, or `latest`. The service
itself knows whole ids only, so that a program never gets another run than it named."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.interfaces.cli import run_names

if TYPE_CHECKING:
    from iceberg_compaction import Client

_WHOLE = re.compile(r"[0-9a-f]{32}")
_MOST_READ = 1000  # runs that are looked through for a beginning


def run_id(service: Client, name: str, *, changes: bool = False) -> str:
    """The whole id. ConfigError: no run, or several of them, have this name. `changes`: something happens to the run,
    so that `latest` will not do: runs of others come in between."""
    wanted = name.strip().lower()
    if _WHOLE.fullmatch(wanted):
        return wanted
    if wanted == run_names.LATEST and changes:
        raise errors.ConfigError(
            "The latest run of a service may be one of somebody else, or of its scheduler; give the id of the run, "
            "which `history` shows."
        )
    if wanted == run_names.LATEST:
        return _latest(service)
    if len(wanted) < run_names.SHORTEST:
        raise errors.ConfigError(
            f"{name!r} is too short for the beginning of a run id; give {run_names.SHORTEST} characters or more, or "
            "`latest`."
        )
    at_work = [work.run_id for state in ("running", "queued") for work in service.all_work(state)]
    ended = (record.run_id for record in itertools.islice(service.runs(), _MOST_READ))
    ids = list(dict.fromkeys(each for each in itertools.chain(at_work, ended) if each.startswith(wanted)))
    if len(ids) == 1:
        return ids[0]
    if ids:
        raise errors.ConfigError(f"{len(ids)} runs begin with {name!r}: {', '.join(ids[:5])}; give more characters.")
    raise errors.ConfigError(
        f"None of the last {_MOST_READ:,} runs of the service begins with {name!r}; `history` lists them."
    )


def _latest(service: Client) -> str:
    """Of what is at work and what has ended, whatever began last."""
    work = next(iter(service.all_work("running")), None)
    record = next(iter(service.runs()), None)
    if work is not None and (record is None or work.request.requested_ms >= record.started_ms):
        return work.run_id
    if record is None:
        raise errors.ConfigError("The service has no run.")
    return record.run_id

"""Prices, for estimates of what rewrites and scans cost. Requests, seconds of computing and bytes in storage come in,
dollars go out. Planning, budgets and metrics share this one model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from iceberg_compaction import errors
from iceberg_compaction.model.value import Value

if TYPE_CHECKING:
    from iceberg_compaction.model.storage_requests import StorageRequests

_HOUR = 3600
_GB = 10**9
_MONTH_DAYS = 30
_Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Prices(Value):
    """In dollars. The defaults are list prices of S3 Standard, and about those of a core in a cloud."""

    task_hour: _Dollars = 0.05  # of computing, in one task
    thousand_reads: _Dollars = 0.0004  # GET and HEAD
    thousand_writes: _Dollars = 0.005  # PUT, parts, COPY and LIST; DELETE is free
    gb_month: _Dollars = 0.023  # of storage; 30 days

    def compute(self, seconds: float) -> float:
        return seconds / _HOUR * self.task_hour

    def requests(self, requests: StorageRequests) -> float:
        reads = requests.gets + requests.heads
        writes = requests.puts + requests.parts + requests.lists + requests.copies
        return reads * self.read + writes * self.write

    def storage(self, bytes: float, days: float) -> float:
        """So many bytes for so many days."""
        return bytes / _GB * days / _MONTH_DAYS * self.gb_month

    @property
    def read(self) -> float:
        return self.thousand_reads / 1000

    @property
    def write(self) -> float:
        return self.thousand_writes / 1000


# Other names of a price: what they set, and the factor to our unit. The last three are those of the guide.
_SYNONYMS: dict[str, tuple[tuple[str, ...], float]] = {
    "compute-hour": (("task_hour",), 1),
    "storage-gb-month": (("gb_month",), 1),
    "reads-per-1000": (("thousand_reads",), 1),
    "writes-per-1000": (("thousand_writes",), 1),
    "api-cost-per-1000": (("thousand_reads", "thousand_writes"), 1),
    "compute-cost-per-second": (("task_hour",), _HOUR),
    "storage-cost-per-gb": (("gb_month",), 1),
}
_NAMES = {name.replace("_", "-"): ((name,), 1.0) for name in Prices.model_fields} | _SYNONYMS


def parse_prices(text: str | None, *, variable: str) -> Prices:
    """Prices such as `task-hour=0.04,thousand-reads=0.0004`, as lines `task-hour: 0.04` (YAML) or as a JSON object;
    those that are not named have their defaults. `variable`: where the text is from, for errors."""
    text = (text or "").strip()
    if text.startswith("{"):
        try:
            given = json.loads(text)
        except ValueError as error:
            raise errors.ConfigError(f"{variable}: it is not a JSON object of prices: {error}.") from None
        return _of_names(given, variable)
    return _of_names(dict(_pairs(text, variable)), variable)


def _pairs(text: str, variable: str) -> list[tuple[str, str]]:
    pairs = []
    for number, line in enumerate(text.splitlines(), 1):
        stated = line.partition("#")[0].strip()
        if stated in ("", "---", "prices:"):
            continue
        for pair in filter(None, (each.strip() for each in stated.split(","))):
            name, _, amount = pair.partition("=" if "=" in pair else ":")
            if not amount.strip():
                where = f", line {number}" if "\n" in text else ""
                raise errors.ConfigError(
                    f"{variable}{where}: {pair!r} is not a price; write NAME=DOLLARS with one of {_known()}."
                )
            pairs.append((name.strip().strip("\"'"), amount.strip().strip("\"'")))
    return pairs


def _of_names(given: Mapping[str, Any], variable: str) -> Prices:
    prices: dict[str, float] = {}
    for name, amount in given.items():
        meant = _NAMES.get(str(name).replace("_", "-"))
        try:
            dollars = float(amount) if meant is not None and not isinstance(amount, bool) else None
        except (TypeError, ValueError):
            dollars = None
        if meant is None or dollars is None:
            raise errors.ConfigError(
                f"{variable}: {f'{name}={amount}'[:60]!r} is not a price; write NAME=DOLLARS with one of {_known()}."
            )
        prices.update(dict.fromkeys(meant[0], dollars * meant[1]))
    try:
        return Prices(**prices)
    except ValidationError:
        raise errors.ConfigError(f"{variable}: a price must be a number of dollars, and not negative.") from None


def _known() -> str:
    return ", ".join(_NAMES)


def _validated(given: Any) -> Any:
    """Prices under any of their names; ValueError as pydantic wants it."""
    try:
        if isinstance(given, str):
            return parse_prices(given, variable="prices")
        return _of_names(given, "prices") if isinstance(given, Mapping) else given
    except errors.ConfigError as error:
        raise ValueError(str(error).removeprefix("prices: ").rstrip(".")) from None


AnyPrices = Annotated[Prices, BeforeValidator(_validated)]  # as a field of other values

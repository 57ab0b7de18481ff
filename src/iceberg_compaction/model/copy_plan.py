"""The expectations of a plan about row groups: copied as bytes or encoded anew, and the figures behind that. The
planner makes these values, the plan stores them, and workers get the break-even size."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field
from typing_extensions import assert_never

from iceberg_compaction.model import plurals
from iceberg_compaction.model.byte_size import format_size
from iceberg_compaction.model.policies import CopyMode
from iceberg_compaction.model.value import Count, Value

if TYPE_CHECKING:
    from collections.abc import Mapping


_MB = 10**6
# Of a row group's rows: where more are deleted, it is decoded, because joined row groups would come out small.
MOST_DELETED = 0.3
_WITHOUT = "joined without these, or encoded"  # row groups with deleted rows


class RateOrigin(str, Enum):
    """The origin of a rate."""

    DEFAULT = "default"  # nothing was measured yet
    TABLE = "table"  # earlier runs on this table
    OTHERS = "other-tables"  # earlier runs on other tables of the same store


class Rate(Value):
    """Input bytes per second of one core."""

    bytes_per_second: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    origin: RateOrigin = RateOrigin.DEFAULT
    runs: Count = 0  # behind the measurement

    @property
    def sentence(self) -> str:
        where = {RateOrigin.TABLE: "this table", RateOrigin.OTHERS: "other tables"}.get(self.origin)
        runs = plurals.count(self.runs, "run")
        return "assumed" if where is None else f"measured in {runs} on {where}"


class Rates(Value):
    """The rates of encoding, copying and joining row groups."""

    encoding: Rate = Rate(bytes_per_second=40 * _MB)
    copying: Rate = Rate(bytes_per_second=600 * _MB)
    joining: Rate = Rate(bytes_per_second=120 * _MB)


class Way(str, Enum):
    """The way of most bytes of a group into new files, and its reason. Closed set."""

    LARGE = "copied-large-row-groups"
    ASKED = "copied-as-asked"
    JOINED = "joined-small-row-groups"
    SMALL = "encoded-small-row-groups"
    JOINED_DELETES = "joined-deletes"  # most row groups have deleted rows, which are left out
    DELETES = "encoded-deletes"  # the same, where that does not pay
    SORTED = "encoded-sorted"  # rows are sorted
    RESPEC = "encoded-respec"  # rows move to another partition spec
    CODEC = "encoded-other-codec"  # the run has another codec than the table; row groups that have it are copied
    NEVER = "encoded-as-asked"

    @property
    def forbids(self) -> bool:
        """Whether nothing of the group can be copied, whatever its row groups."""
        return self in (Way.SORTED, Way.RESPEC, Way.NEVER)

    @property
    def joins(self) -> bool:
        """Whether most bytes of the group are joined."""
        return self in (Way.JOINED, Way.JOINED_DELETES)


class Copying(Value):
    """The figures behind copying in a plan, and the expectation. Workers decide about each row group by its footer."""

    mode: CopyMode
    break_even: Count  # bytes of a row group at which copying and encoding cost the same
    least: Count  # bytes; smaller row groups are encoded. For `auto` the break-even size, never below the policy's
    encoded_row_group: Count  # bytes of the row groups that encoding makes
    codec: str | None  # of the table; row groups with another codec are encoded, too
    rates: Rates
    bytes: Count = 0  # of all groups
    row_groups: Count = 0
    copied_bytes: Count = 0  # of these, expected
    joined_bytes: Count = 0  # likewise
    sentence: str = ""  # the above in words

    def of(self, groups: pa.Table) -> Copying:
        """The same with the totals of these groups (PLAN_GROUPS)."""
        totals = {name: int(pc.sum(groups[name]).as_py() or 0) for name in ("bytes", "row_groups", "copied_bytes")}
        joined = groups.filter(pc.is_in(groups["copying"], pa.array([way.value for way in Way if way.joins])))
        totals["joined_bytes"] = int(pc.sum(pc.subtract(joined["bytes"], joined["copied_bytes"])).as_py() or 0)
        copying = self.model_copy(update=totals)
        return copying.model_copy(update={"sentence": copying._sentence()})

    @property
    def core_seconds(self) -> float:
        """The work of all groups in seconds of one core, by the rates."""
        encoded = max(0, self.bytes - self.copied_bytes - self.joined_bytes)
        amounts = (
            (encoded, self.rates.encoding),
            (self.copied_bytes, self.rates.copying),
            (self.joined_bytes, self.rates.joining),
        )
        return sum(amount / rate.bytes_per_second for amount, rate in amounts)

    def _sentence(self) -> str:
        if not self.bytes:
            return "Nothing is rewritten, so nothing is copied."
        share = self.copied_bytes / self.bytes
        much = "nothing" if not self.copied_bytes else f"about {share:.0%}"
        amount = (
            f"{much[0].upper()}{much[1:]} of {format_size(self.bytes)} is copied as bytes{self._joined()}, row groups "
            f"of {format_size(self.bytes / max(1, self.row_groups))} on average"
        )
        match self.mode:
            case CopyMode.AUTO:
                return f"{amount}; {self._break_even()}.{self._codec()}"
            case CopyMode.ALWAYS:
                return f"{amount}; whatever their size, as asked."
            case CopyMode.NEVER:
                return f"{amount}; all are encoded, as asked."
            case _:
                assert_never(self.mode)

    def _joined(self) -> str:
        if not self.joined_bytes:
            return ""
        rate = self.rates.joining
        speed = f"at {rate.bytes_per_second / _MB:.0f} MB/s ({rate.sentence})"
        return f" and about {self.joined_bytes / self.bytes:.0%} is joined page by page {speed}"

    def _break_even(self) -> str:
        encoding, copying = self.rates.encoding, self.rates.copying
        floor = f", but nothing below {format_size(self.least)}" if self.least > self.break_even else ""
        return (
            f"break-even {format_size(self.break_even)} at {encoding.bytes_per_second / _MB:.0f} MB/s encoding "
            f"({encoding.sentence}) and {copying.bytes_per_second / _MB:.0f} MB/s copying ({copying.sentence}){floor}"
        )

    def _codec(self) -> str:
        """Manifests do not name codecs, so workers check them."""
        codec = self.codec.lower() if self.codec else "zstd, gzip or brotli"
        return f" Row groups that are not compressed with {codec} are encoded." if self.copied_bytes else ""

    def sentence_of(self, row: Mapping[str, Any]) -> str:
        """The expectation for one group, a row of PLAN_GROUPS, with figures and without a full stop."""
        mean = format_size(row["bytes"] / max(1, row["row_groups"]))
        assumed = f" (assumed for {row['untold_files']:,} of {_files(row['files'])})" if row["untold_files"] else ""
        groups, least = f"row groups of {mean} on average{assumed}", format_size(self.least)
        small, files = row["small_row_group_files"], row["files"]
        way = Way(row["copying"])
        match way:
            case Way.LARGE:
                where = f"where they have at least {least}, in {files - small:,} of {_files(files)}"
                return f"{groups} are copied {where}{_but_deleted(row, _WITHOUT)}"
            case Way.ASKED:
                return f"{groups} are copied as asked{_but_deleted(row)}"
            case Way.JOINED:
                why = f"because they have less than {least} in {small:,} of {_files(files)}"
                return f"{groups} are joined page by page, {why}{_but_copied(row)}{_but_deleted(row, _WITHOUT)}"
            case Way.SMALL:
                why = f"because they have less than {least} in {small:,} of {_files(files)}"
                return f"{groups} are encoded, {why}{_but_copied(row)}"
            case Way.JOINED_DELETES | Way.DELETES:
                how = "joined page by page" if way.joins else "encoded"
                return f"{groups} are {how}, because most have {_deleted(row)}{_but_copied(row)}"
            case Way.SORTED:
                return f"{groups} are encoded, because rows are sorted"
            case Way.RESPEC:
                return f"{groups} are encoded, because their rows leave partition spec {row['spec_id']}"
            case Way.CODEC:
                return f"{groups} are encoded, because the codec of this run is {self.codec}, not the table's"
            case Way.NEVER:
                return f"{groups} are encoded as asked"
            case _:
                assert_never(way)


def _files(count: int) -> str:
    return plurals.count(count, "file")


def _but_copied(row: Mapping[str, Any]) -> str:
    return f"; about {format_size(row['copied_bytes'])} is copied all the same" if row["copied_bytes"] else ""


def _but_deleted(row: Mapping[str, Any], instead: str = "encoded") -> str:
    return f"; those with {_deleted(row)} are {instead}" if row["deleted_rows"] else ""


def _deleted(row: Mapping[str, Any]) -> str:
    return f"deleted rows (about {row['deleted_rows'] / max(1, row['records']):.1%} of all)"

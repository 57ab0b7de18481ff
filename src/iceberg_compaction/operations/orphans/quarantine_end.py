"""The two ways out of quarantine. `restore` brings files back to their own paths, never over a file that is there;
`purge` deletes them for good after a time, and only files that a manifest names and no table refers to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from iceberg_compaction import errors
from iceberg_compaction.catalog import publish
from iceberg_compaction.metadata.reach import known_paths, linked_folders
from iceberg_compaction.model import byte_size, events, orphan_plan, outcome, plurals, times
from iceberg_compaction.model.upkeep_plan import UpkeepStep
from iceberg_compaction.operations.neighbourhood import shared_files
from iceberg_compaction.operations.neighbourhood.look_around import Neighbourhood, Neighbourhoods
from iceberg_compaction.operations.operation import BeginsAnew, PlannedWork
from iceberg_compaction.operations.orphans import plan_orphans, quarantine, references
from iceberg_compaction.record import journal
from iceberg_compaction.storage import remove

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

    from iceberg_compaction.model.orphan_plan import QuarantinePlan
    from iceberg_compaction.operations.operation import EngineFactory
    from iceberg_compaction.operations.orphans.quarantine import QuarantinedFile, QuarantineManifest
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.runs import Run

_NOBODY = Neighbourhood(neighbours=())
# A removal writes a manifest, copies up to a thousand files, and removes the originals then. It may have another run
# store, so that nobody here knows of it. An hour is enough for the copies of nearly all batches; for others the removal
# looks for the copies itself. To wait costs only the room of copies whose originals are where they belong.
_MOVING_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EndQuarantine(BeginsAnew):
    """Bring files of a table back from quarantine, or delete them for good."""

    table: str
    way: Literal["restore", "purge"]
    run_id: str | None = None  # only what this run, or runs whose ids begin so, put there
    quarantine: str | None = None  # the folder that was given when the files were put there
    older_than_ms: int = orphan_plan.PURGE_MS  # `purge` only: in quarantine for so long
    branch: str = "main"
    allow_unlisted: bool = False  # `purge` only: also if other tables of the catalog cannot be looked at
    neighbourhoods: Neighbourhoods = field(default_factory=Neighbourhoods)

    @property
    def command(self) -> str:
        return journal.command_line(f"orphans {self.way}", self.table, self.branch)

    def plan(self, table: Table, run: Run, ledger: Ledger) -> PlannedWork[QuarantinePlan]:
        """The manifests whose files come out. Writes nothing."""
        folder, uuid = quarantine.folder_of(table, self.quarantine), str(table.metadata.table_uuid)
        every = quarantine.manifests(table.io, folder)
        chosen = [each for each in every if self.run_id is None or each.run_id.startswith(self.run_id)]
        if self.run_id is not None and not chosen:
            runs = sorted({each.run_id for each in every})
            others = f"it has files of {plurals.listed(runs)}" if runs else "it is empty"
            raise errors.ConfigError(f"The quarantine {folder} has nothing of run {self.run_id}; {others}.")
        due: list[QuarantineManifest] = []
        steps: list[UpkeepStep] = []
        waiting: list[UpkeepStep] = []
        for manifest in chosen:
            lines = quarantine.read(table.io, manifest, uuid)
            since_ms = _since_ms(manifest, lines)
            is_due = self.way == "restore" or run.clock() - since_ms >= self.older_than_ms
            (steps if is_due else waiting).append(self._step(manifest, lines, since_ms))
            due += [manifest] if is_due else []
        plan = orphan_plan.QuarantinePlan(
            operation="restore-orphans" if self.way == "restore" else "purge-orphans",
            id=f"plan-{run.run_id}",
            table=self.table,
            table_uuid=uuid,
            created_ms=run.clock(),
            sentence=self._sentence(steps, waiting),
            steps=tuple(steps),
            kept=tuple(waiting),
            notes=("Files that are deleted cannot be brought back.",) if self.way == "purge" and steps else (),
            folder=folder,
            manifests=tuple(each.path for each in due),
        )
        run.emit(events.Planned(table=self.table, run_id=run.run_id, sentence=plan.sentence))
        return PlannedWork(plan=plan)

    def _step(self, manifest: QuarantineManifest, lines: Sequence[QuarantinedFile], since_ms: int) -> UpkeepStep:
        since = times.timestamptz(since_ms // 1000 * 1_000_000)
        example = f", such as {lines[0].original}" if lines else ""
        return UpkeepStep(
            name=manifest.run_id,
            count=len(lines),
            bytes=sum(line.size for line in lines),
            sentence=f"In quarantine since {since}{example}.",
        )

    def _sentence(self, steps: Sequence[UpkeepStep], waiting: Sequence[UpkeepStep]) -> str:
        if not steps:
            return "All files are in quarantine for too short a time." if waiting else "The quarantine is empty."
        files = plurals.count(sum(step.count for step in steps), "file")
        size = byte_size.format_size(sum(step.bytes or 0 for step in steps))
        return f"{files} of {size} to {'bring back' if self.way == 'restore' else 'delete for good'}."

    def perform(
        self, planned: PlannedWork[QuarantinePlan], table: Table, run: Run, ledger: Ledger, engines: EngineFactory
    ) -> outcome.Outcome:
        others = self._others(table, run) if self.way == "purge" else _NOBODY
        work = _End(plan=planned.plan, table=publish.reload(table), run=run, others=others)
        for manifest in quarantine.manifests(table.io, planned.plan.folder):
            if manifest.path in planned.plan.manifests:
                run.cancel.check()
                lines = quarantine.read(table.io, manifest, planned.plan.table_uuid)
                work.restore(manifest, lines) if self.way == "restore" else work.purge(manifest, lines)
        return work.outcome(self.way)

    def _others(self, table: Table, run: Run) -> Neighbourhood:
        """The other tables, which may refer to the files. UnsupportedError: they cannot be looked at."""
        others = self.neighbourhoods.of(table, run)
        if others.doubt is not None and not self.allow_unlisted:
            raise errors.UnsupportedError(
                f"{others.doubt} It may refer to files in quarantine; say --allow-unlisted if you know that it does "
                "not."
            )
        return others

    def idle(self, plan: QuarantinePlan, run: Run, ledger: Ledger) -> outcome.Outcome:
        return outcome.Healthy(table=plan.table, sentence=plan.sentence, run_id=run.run_id, plan_id=plan.id)


def _since_ms(manifest: QuarantineManifest, lines: Sequence[QuarantinedFile]) -> int:
    """Since when files are in quarantine: by the store's clock or that of the run, whichever is later."""
    return max(manifest.modified_ms or 0, *(line.quarantined_ms for line in lines), 0)


@dataclass(slots=True, kw_only=True)
class _End:
    """A plan under way."""

    plan: QuarantinePlan
    table: Table
    run: Run
    others: Neighbourhood
    done: int = 0
    bytes: int = 0
    stayed: list[str] = field(default_factory=list)  # sentences: why a file is still in quarantine
    waiting: int = 0  # files at their own paths whose copies must not go yet
    lost: list[str] = field(default_factory=list)  # paths of files that are nowhere
    referred: references.References | None = None

    def restore(self, manifest: QuarantineManifest, lines: Sequence[QuarantinedFile]) -> None:
        """All files that can go back do; their copies go, and the manifest once all have."""
        is_young = self.run.clock() - _since_ms(manifest, lines) < _MOVING_MS
        back = []
        for line in lines:
            result = quarantine.bring_back(self.table.io, line, is_young=is_young)
            if result is quarantine.Return.BACK:
                back.append(line)
            elif result is quarantine.Return.WAITS:
                self.waiting += 1
            elif result is quarantine.Return.LOST:
                self.lost.append(line.original)
            else:
                self.stayed.append(result.value.format(path=line.original))
        self._end(manifest, lines, back, remove.RemovalProof.RESTORED)

    def purge(self, manifest: QuarantineManifest, lines: Sequence[QuarantinedFile]) -> None:
        """All files go to which no table refers, and the manifest once all have."""
        spellings = plan_orphans.spellings_of(self.table, orphan_plan.OrphanGoal())
        if self.referred is None:
            self.referred = references.read(self.table, spellings)
        paths = pa.array([line.original for line in lines], pa.string())
        users = {self.plan.table: self.referred.needs(paths.to_pylist())} if lines else {}
        for other in shared_files.needed(self.table, linked_folders.of_locations(paths), self.others, spellings):
            users[other.table] = known_paths.among(known_paths.hashes(spellings, paths)[0], other.paths)
        unneeded = []
        for number, line in enumerate(lines):
            user = next((name for name, needed in users.items() if needed[number]), None)
            if user is None:
                unneeded.append(line)
            else:
                self.stayed.append(
                    f"{user} refers to {line.original}; bring it back with `iceberg-compact orphans restore`."
                )
        self._end(manifest, lines, unneeded, remove.RemovalProof.ORPHAN)

    def _end(
        self,
        manifest: QuarantineManifest,
        lines: Sequence[QuarantinedFile],
        going: Sequence[QuarantinedFile],
        proof: remove.RemovalProof,
    ) -> None:
        left = frozenset(remove.remove_files(self.table.io, [line.moved for line in going], proof))
        gone = [line for line in going if line.moved not in left]
        self.stayed += [f"{path} could not be removed." for path in sorted(left)]
        self.done += len(gone)
        self.bytes += sum(line.size for line in gone)
        if len(gone) == len(lines):
            remove.remove_files(self.table.io, [manifest.path], proof)

    def outcome(self, way: str) -> outcome.Outcome:
        common = {
            "table": self.plan.table,
            "sentence": self._sentence(way),
            "run_id": self.run.run_id,
            "plan_id": self.plan.id,
        }
        stayed = len(self.stayed) + self.waiting
        if (stayed or self.lost) and not self.done:
            return outcome.Failed(**common)
        figures = {"files": self.done, "bytes": self.bytes, "stayed": stayed}
        if self.lost:
            figures["lost"] = len(self.lost)
        return outcome.Maintained(operation=self.plan.operation, figures=figures, notes=self.plan.notes, **common)

    def _sentence(self, way: str) -> str:
        if way == "restore":
            deed = plurals.form(self.done, "is back at its own path", "are back at their own paths")
        else:
            deed = plurals.form(self.done, "was deleted for good", "were deleted for good")
        words = [f"{plurals.count(self.done, 'file')} of {byte_size.format_size(self.bytes)} {deed}."]
        if self.waiting:  # that no file is back sounds wrong if files are in their places
            words = [*(words if self.done else []), self._waiting_words()]
        if self.stayed:
            words.append(f"{plurals.count(len(self.stayed), 'file')} stayed in quarantine: {self.stayed[0]}")
        if self.lost:
            where = plurals.form(len(self.lost), "is lost: it is", "are lost: they are")
            words.append(
                f"{plurals.count(len(self.lost), 'file')} {where} neither in quarantine nor back in place, such as "
                f"{self.lost[0]}."
            )
        return " ".join(words)

    def _waiting_words(self) -> str:
        one, many = "is at its own path, and its copy stays", "are at their own paths, and their copies stay"
        return (
            f"{plurals.count(self.waiting, 'file')} {plurals.form(self.waiting, one, many)} in quarantine: a removal "
            "that began less than an hour ago may still be at work; restore again in an hour."
        )

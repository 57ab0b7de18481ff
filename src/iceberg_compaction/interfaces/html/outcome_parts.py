"""An outcome in HTML: figures, groups and proof, for the page of a run and for notebooks alike. Everything that comes
from a table is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from iceberg_compaction.interfaces import run_words
from iceberg_compaction.interfaces.html import tags
from iceberg_compaction.model import partition_words
from iceberg_compaction.model.byte_size import format_size
from iceberg_compaction.model.outcome import GroupEnd

if TYPE_CHECKING:
    from iceberg_compaction.model.outcome import Outcome

_MOST_GROUPS = 200


def parts(outcome: Outcome) -> list[str]:
    """All of it, as cards."""
    facts = "".join(f"<li>{tags.sentence(fact)}</li>" for fact in run_words.facts_of(outcome))
    notes = "".join(f"<li>{tags.sentence(note)}</li>" for note in getattr(outcome, "notes", ()))
    return [
        f"<h2>{tags.name(outcome.table)}</h2>",
        f'<p>{tags.badge(outcome.kind.value)} <span class="soft">run <code>{escape(outcome.run_id)}</code></span></p>',
        f"<p>{tags.sentence(outcome.sentence)}</p>",
        tiles(outcome) if outcome.snapshot_ids else "",
        groups(outcome) if outcome.groups else "",
        tags.card("Proof and effort", f"<ul>{facts}</ul>") if facts else "",
        tags.card("Notes", f"<ul>{notes}</ul>") if notes else "",
    ]


def tiles(outcome: Outcome) -> str:
    """The figures at a glance."""
    figures = [
        (f"{outcome.files_removed:,}", "files rewritten"),
        (f"{outcome.files_added:,}", "files written"),
        (format_size(outcome.bytes_removed), "read"),
        (format_size(outcome.bytes_added), "written"),
        (run_words.span(outcome.seconds), "in all"),
    ]
    if outcome.manifests_removed:
        figures[:4] = [
            (f"{outcome.manifests_removed:,}", "manifests rewritten"),
            (f"{outcome.manifests_added:,}", "manifests written"),
        ]
    return tags.tiles(figures)


def groups(outcome: Outcome) -> str:
    """How groups ended, and why some were not committed."""
    ends = run_words.ends_of(outcome)
    if not ends:
        return ""
    left = [group for group in outcome.group_outcomes if group.outcome is not GroupEnd.COMMITTED]
    names = ("Group", "Partition", "End", "Why")
    listed = [
        [
            f"{group.id}",
            f"<code>{escape(partition_words.text(group.partition))}</code>",
            escape(group.outcome.value),
            tags.sentence(group.sentence),
        ]
        for group in left[:_MOST_GROUPS]
    ]
    table = tags.table(names, listed, caption="Groups that were not committed") if listed else ""
    more = f'<p class="soft">{len(left) - _MOST_GROUPS:,} more are not shown.</p>' if len(left) > _MOST_GROUPS else ""
    return tags.card("Groups", f"{tags.bars(ends)}{table}{more}")

"""Refuses the search for orphans in folders that other tables of the catalog have files in, where nobody can tell whose
a file is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.model import table_names
from iceberg_compaction.storage.tree import path_forms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

    from iceberg_compaction.operations.neighbourhood.look_around import Neighbourhood
    from iceberg_compaction.storage.tree.path_forms import Spellings


def check(
    table: Table, roots: Sequence[str], others: Neighbourhood, spellings: Spellings, *, allow_unlisted: bool
) -> None:
    """UnsupportedError: another table of the catalog may have files in these folders."""
    name, uuid = table_names.text(table.name()), str(table.metadata.table_uuid)
    if others.doubt is not None and not allow_unlisted:
        raise errors.UnsupportedError(
            f"{others.doubt} Its files would be orphans of {name} if they lay in the same folders; say "
            "--allow-unlisted, or allow-unlisted in the policy, if you know that no table does."
        )
    own = [form(root) for root in roots for form in (spellings.split, spellings.real)]
    for other in others.neighbours:
        if other.uuid == uuid:
            raise errors.UnsupportedError(
                f"{other.table} is the same table as {name} under another name (uuid {uuid}), so that each has files "
                "that the other does not refer to; orphans of such tables cannot be told."
            )
        for folder in (*other.roots, *other.used):
            theirs = (spellings.split(folder), spellings.real(folder))
            # Around a folder of metadata there is nothing of that table.
            nested = path_forms.overlap if folder in other.roots else path_forms.is_below
            if any(store == prefix and nested(path, mine) for prefix, mine in own for store, path in theirs):
                raise errors.UnsupportedError(
                    f"{other.table} has its files in {folder}, which is a folder of {name} as well, or inside one, or "
                    "around one; its files would be orphans."
                )

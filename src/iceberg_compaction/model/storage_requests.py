"""How many requests a run made to an object store, by kind. Stores charge for requests and answer each in tens of
milliseconds, so that small files cost more requests than bytes."""

from __future__ import annotations

from iceberg_compaction.model.value import Value


class StorageRequests(Value):
    """Requests to object stores, retries included. Files on local disks and requests to the catalog do not count."""

    gets: int = 0
    heads: int = 0
    puts: int = 0  # of whole files, and those that begin or complete an upload in parts
    parts: int = 0  # of uploads in parts
    lists: int = 0  # pages of listings
    copies: int = 0
    deletes: int = 0

    @property
    def total(self) -> int:
        return sum(self.model_dump().values())

    @property
    def sentence(self) -> str:
        """Empty where no request was made."""
        words = {"gets": "GET", "heads": "HEAD", "puts": "PUT", "parts": "part", "lists": "LIST", "copies": "copy"}
        words["deletes"] = "delete"
        counts = [f"{count:,} {words[name]}" for name, count in self.model_dump().items() if count]
        return f"Requests to storage: {', '.join(counts)}." if counts else ""

    def __add__(self, other: StorageRequests) -> StorageRequests:
        others = other.model_dump()
        return StorageRequests(**{name: count + others[name] for name, count in self.model_dump().items()})

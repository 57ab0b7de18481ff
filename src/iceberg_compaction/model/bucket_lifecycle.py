"""Rules by which a bucket moves and removes objects by itself, and what they mean for a table."""

from __future__ import annotations

from typing import Literal

from iceberg_compaction.model.value import Value


class LifecycleDeed(Value):
    """What a rule does to objects, and when."""

    name: str  # as S3 has it: Expiration, Transition, AbortIncompleteMultipartUpload
    when: str  # such as `30 days`, or a day; empty: it does not say
    to: str = ""  # the storage class that objects go to


class LifecycleRule(Value):
    """A rule of a bucket that is in force."""

    name: str
    prefix: str  # of keys; empty: all
    limited: bool = False  # to objects of some tags or sizes
    deeds: tuple[LifecycleDeed, ...]


class LifecycleNote(Value):
    """What a rule does to a table."""

    kind: Literal["deletes", "archives", "cools", "aborts-uploads"]
    rule: str
    bucket: str
    folder: str  # of the table, or the part of it that the rule is about
    sentence: str

    @property
    def is_good(self) -> bool:
        return self.kind == "aborts-uploads"

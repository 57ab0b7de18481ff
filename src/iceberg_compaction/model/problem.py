"""What went wrong with a request to a service, as RFC 9457 has it: a kind that programs tell apart, and one sentence
for a person."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from iceberg_compaction.model.value import Value


class FieldProblem(Value):
    """One field of a request that cannot be meant."""

    where: Annotated[str, Field(description="such as body.options.max_cost")]
    detail: str


class Problem(Value):
    """The body of every answer that is an error."""

    type: Annotated[str, Field(description="urn:iceberg-compaction:problem:KIND")]
    title: str
    status: Annotated[int, Field(ge=400, le=599)]
    detail: Annotated[str, Field(description="what is wrong, where, and what to do")]
    retryable: Annotated[bool, Field(description="whether the same request may succeed later")] = False
    fields: tuple[FieldProblem, ...] = ()

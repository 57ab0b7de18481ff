"""The base of every value that crosses a process border: frozen, strict about unknown fields, JSON both ways.
Values that stay inside one process are frozen dataclasses instead."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

# A count, a number of bytes or an id as Iceberg has them: a long that is not negative, and no text or truth value.
Count = Annotated[int, Field(strict=True, ge=0, lt=2**63)]

# A count that may be negative, and a number.
Difference = Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)]
Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class Value(BaseModel):
    """A frozen value; fields are named as in Python in code and may be given by alias (`target-file-size-bytes`)."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        arbitrary_types_allowed=True,
        ser_json_bytes="base64",
        val_json_bytes="base64",
    )

    def _line(self, subject: str, sentence: str) -> str:
        """The repr of a value that people look at as a whole; its fields are in `model_dump`."""
        return f"<{type(self).__name__} of {subject}: {sentence}>"

"""What a run may cost. It comes from a policy and the runs of the last hour; planning and the run itself keep it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """In dollars, with the reason in words: `max-cost is $10.00`."""

    dollars: float
    words: str

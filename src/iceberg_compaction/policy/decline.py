"""Whether the policy of a table lets a run begin now. The reason why not is a sentence that names the origin of the
value and the way around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.policy import quiet_time

if TYPE_CHECKING:
    from iceberg_compaction.model.policy_origin import EffectivePolicy


def reason(effective: EffectivePolicy, now_ms: int) -> str | None:
    """Why nothing is done to a table now; None: it may be."""
    policy = effective.policy
    if not policy.enabled:
        origin = effective.origin("enabled").words
        return f"Its policy says enabled: false ({origin}); --option enabled=true compacts it nevertheless."
    until = quiet_time.quiet_until(policy.quiet_hours, quiet_time.moment(now_ms))
    if until is None:
        return None
    origin = effective.origin("quiet-hours").words
    return (
        f"It has quiet hours until {until:%Y-%m-%d %H:%M} UTC ({origin}); --option quiet-hours=off compacts it "
        "nevertheless."
    )

"""Who may start which work, and with which options. Options that would reach files of this machine, or of other tables,
are for whoever answers for all tenants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.interfaces import policy_options
from iceberg_compaction.model import maintenance
from iceberg_compaction.model.principal import Role
from iceberg_compaction.model.work import WorkKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iceberg_compaction.model.principal import Principal

# Work that deletes files or rows for good.
_DELETING = frozenset({WorkKind.EXPIRE, WorkKind.TTL})
# Options that remove files in spite of what keeps those of others safe.
_BOLD = frozenset({"allow_recent", "force_share", "allow_unlisted", "despite_differences"})
# Options that lead to other folders than the table's own.
_FAR = frozenset({"locations", "quarantine", "equal_schemes", "equal_authorities"})


def role_for(kind: WorkKind, options: Mapping[str, Any]) -> Role:
    """The role that somebody needs to start such work."""
    is_bold = options.get("to_quarantine", True) is not True or any(options.get(name) for name in _BOLD)
    if kind in _DELETING or is_bold or (kind is WorkKind.MAINTAIN and _may_delete(options)):
        return Role.ADMIN
    return Role.OPERATOR


def _may_delete(options: Mapping[str, Any]) -> bool:
    """Whether options name steps that delete for good, or change what steps of the policy keep."""
    if {step.value for step in maintenance.named_steps(options.get("steps"))} & {kind.value for kind in _DELETING}:
        return True
    from iceberg_compaction.policy import spelling

    spellings = spelling.PolicySpellings()
    meant = [spellings.meaning(name) for name in options]
    return "profile" in options or any(each is not None and each.key.path[0] == "maintenance" for each in meant)


def check(principal: Principal, options: Mapping[str, Any]) -> None:
    """ForbiddenError: options that are not for everybody. ConfigError: a path of this machine."""
    if isinstance(prices := options.get("prices"), str) and "=" not in prices:
        raise errors.ConfigError("The option prices takes NAME=DOLLARS pairs here, not a file.")
    far = sorted(_FAR & options.keys())
    if far and (principal.tenants is not None or not principal.role.covers(Role.ADMIN)):
        raise errors.ForbiddenError(f"The option {far[0]} is for an admin of all tenants.")


def normal(kind: WorkKind, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options under the one spelling that work has: of the rewrite as a policy has it, of others as the library."""
    if kind is WorkKind.COMPACT:
        return {policy_options.option_name(name): value for name, value in options.items()}
    return {name.replace("-", "_"): value for name, value in options.items()}

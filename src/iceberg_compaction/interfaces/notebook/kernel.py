"""The notebook's kernel that this process may be. Found by what is loaded already, so that nothing is imported, and
nothing happens in a process that is no kernel."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

# Takes what is shown by MIME type, the id of the display, and whether it replaces what that display shows.
Publish: TypeAlias = "Callable[[dict[str, str], str, bool], None]"


def publisher() -> Publish | None:
    """How to show something in the output of the cell that runs now; None: this process is no kernel. A terminal with
    IPython is none: it cannot replace what it has shown."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell: Any = None if get_ipython is None else get_ipython()
    if shell is None or getattr(shell, "kernel", None) is None:
        return None

    def publish(shown: dict[str, str], display_id: str, update: bool) -> None:
        shell.display_pub.publish(data=shown, metadata={}, transient={"display_id": display_id}, update=update)

    return publish

"""Whether this process has set up OpenTelemetry. It looks at modules that are loaded already and imports none."""

from __future__ import annotations

import sys
from typing import Any

_API = "opentelemetry"  # its own providers do nothing


def has_tracer() -> bool:
    """Whether spans go anywhere."""
    return is_set_up("trace", "get_tracer_provider")


def has_meter() -> bool:
    """Whether metrics go anywhere."""
    return is_set_up("metrics", "get_meter_provider")


def is_set_up(signal: str, getter: str) -> bool:
    """Whether a signal has a provider of somebody's own."""
    module: Any = sys.modules.get(f"{_API}.{signal}")
    if module is None:
        return False
    return not type(getattr(module, getter)()).__module__.startswith(f"{_API}.{signal}")

"""Whether Spark is installed. It is an extra of this package, because people with a cluster bring their own."""

from __future__ import annotations

from importlib import util

from iceberg_compaction import errors

_PACKAGES = ("pyspark", "pandas")  # pyspark's mapInArrow imports pandas


def check_installed() -> None:
    """ConfigError: this Python cannot use Spark."""
    missing = [name for name in _PACKAGES if util.find_spec(name) is None]
    if missing:
        raise errors.ConfigError(
            f"The engine spark needs {' and '.join(missing)}, which this Python does not have: "
            "pip install 'iceberg-compaction[spark]', or choose the engine inline (--engine inline)."
        )

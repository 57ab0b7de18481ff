"""Whether Spark is installed. It is an extra of this package, because people with a cluster bring their own."""

from __future__ import annotations

from importlib import util

from iceberg_compaction import errors
from iceberg_compaction.model import plurals

_SPARK = {"pyspark": "pyspark"}  # distributions by the module that is imported
_CONNECT = {
    "pandas": "pandas",
    "grpc": "grpcio",
    "grpc_status": "grpcio-status",
    "google.rpc": "googleapis-common-protos",
    "zstandard": "zstandard",
}


def check_installed() -> None:
    """ConfigError: this Python cannot use Spark."""
    if missing := _missing(_SPARK):
        raise errors.SetupError(
            f"The engine spark needs {missing}, which this Python does not have: "
            "pip install 'iceberg-compaction[spark]', or choose the engine inline (--engine inline)."
        )


def check_connect(target: str) -> None:
    """ConfigError: this Python cannot use Spark Connect."""
    if missing := _missing(_CONNECT):
        raise errors.SetupError(
            f"Spark Connect at {target} needs {missing}, which this Python does not have: "
            "pip install 'iceberg-compaction[connect]'."
        )


def _missing(modules: dict[str, str]) -> str:
    names = [name for module, name in modules.items() if not _is_there(module)]
    return plurals.listed(names)


def _is_there(module: str) -> bool:
    try:
        return util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it would be in
        return False

"""The command line `iceberg-compact`: a thin translation of flags into the values that the workflow
takes, and of its values into text."""

from iceberg_compaction.interfaces.cli.app import main

__all__ = ["main"]

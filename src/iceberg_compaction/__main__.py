"""`python -m iceberg_compaction` is the command `iceberg-compact`."""

from iceberg_compaction.interfaces.cli import main

if __name__ == "__main__":
    main()

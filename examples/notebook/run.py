"""Runs the notebook from its first cell to its last, and keeps it with its outputs as `work/compaction.ipynb`."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent


def main(folder: Path) -> None:
    """The notebook's own folder is in `folder`."""
    notebook = nbformat.read(HERE / "compaction.ipynb", as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    nbformat.write(notebook, folder / "work" / "compaction.ipynb")
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            print(output.get("data", output).get("text/plain") or output.get("text", ""), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else HERE)

"""The examples work as their README says: one command each. They are run in the lab; the notebook has a test of
its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
NAMES = ("cluster", "library", "notebook", "rest-catalog")


def run(name: str, *words: str, seconds: int = 240) -> str:
    """The output of an example, with the Python of the tests."""
    environment = {**os.environ, "EXAMPLES_PYTHON": sys.executable}
    command = [str(EXAMPLES / name / "run.sh"), *words]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.parametrize("name", NAMES)
def test_an_example_has_one_command_and_says_so(name: str) -> None:
    assert os.access(EXAMPLES / name / "run.sh", os.X_OK)
    readme = (EXAMPLES / name / "README.md").read_text()
    assert f"```sh\nexamples/{name}/run.sh\n```" in readme
    assert f"(`{name}`)" in (EXAMPLES / "README.md").read_text().replace(f"[`{name}`]({name})", f"(`{name}`)")
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", readme):
        assert (EXAMPLES / name / target).exists(), target


def test_every_example_is_named() -> None:
    assert sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name[0] not in "_.") == list(NAMES)


@pytest.mark.lab
def test_the_library(tmp_path: Path) -> None:
    output = run("library", "--engine", "inline", "--folder", str(tmp_path / "work"))
    for words in (
        "10 of 10 files are small",
        "Proof (checksum): 1,000 rows in",
        "is undone",
        "did you mean shop.orders",
    ):
        assert words in output


@pytest.mark.lab
@pytest.mark.server
def test_a_rest_catalog_on_s3(tmp_path: Path) -> None:
    output = run("rest-catalog", "--engine", "inline", "--folder", str(tmp_path / "work"))
    assert "10 files (11.9 KiB) became 1" in output
    assert "1,000 rows in 1 file are those of the 10 files that it replaced" in output
    assert "example-secret" not in output

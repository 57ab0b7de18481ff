"""What is published: a wheel, a source archive that builds the same wheel, and completion for the shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = {"3.10", "3.11", "3.12", "3.13"}
PROGRAM = f"""#!/bin/sh
PYTHONPATH={ROOT / "src"} exec {sys.executable} -c 'from iceberg_compaction.interfaces.cli import main; main()' "$@"
"""
# The shell completes a word as if somebody had pressed Tab, and prints what it offers.
PRESS_TAB = {
    "bash": """
eval "$(iceberg-compact --show-completion bash)"
COMP_WORDS=(iceberg-compact {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_iceberg_compact_completion iceberg-compact; printf '%s\\n' "${{COMPREPLY[@]}}"
""",
    "zsh": """
compdef() {{ :; }}; _arguments() {{ printf '%s\\n' "$@"; }}; _describe() {{ :; }}
eval "$(iceberg-compact --show-completion zsh)"
words=(iceberg-compact {words}); CURRENT=$#words
_iceberg_compact_completion
""",
    "fish": """
iceberg-compact --show-completion fish | source
complete --do-complete 'iceberg-compact {words}'
""",
}


def build(source: Path, folder: Path, *what: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder), *what]
    subprocess.run(command, cwd=source, check=True, capture_output=True)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build(ROOT, folder)
    return folder


def only(folder: Path, pattern: str) -> Path:
    (path,) = folder.glob(pattern)
    return path


def test_the_source_archive_builds_the_same_wheel(dist: Path, tmp_path: Path) -> None:
    with tarfile.open(only(dist, "*.tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    build(only(tmp_path, "iceberg_compaction-*"), tmp_path / "again", "-t", "wheel")
    first, again = only(dist, "*.whl"), only(tmp_path / "again", "*.whl")
    assert (first.name, first.read_bytes()) == (again.name, again.read_bytes())


def test_the_wheel_is_typed_and_holds_the_package_alone(dist: Path) -> None:
    with zipfile.ZipFile(only(dist, "*.whl")) as wheel:
        names = set(wheel.namelist())
        (entry,) = (name for name in names if name.endswith("entry_points.txt"))
        assert "iceberg-compact = iceberg_compaction.interfaces.cli:main" in wheel.read(entry).decode()
    assert "iceberg_compaction/py.typed" in names
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"iceberg_compaction"}
    modules = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    assert modules == {name for name in names if name.endswith(".py")}


def test_the_wheel_says_which_pythons_it_was_tried_on(dist: Path) -> None:
    with zipfile.ZipFile(only(dist, "*.whl")) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
        metadata = message_from_bytes(wheel.read(name))
    named = {text.rpartition(" ")[2] for text in metadata.get_all("Classifier", []) if "Python :: 3." in text}
    assert named == PYTHONS
    assert metadata["Requires-Python"] == ">=3.10"


@pytest.mark.parametrize("shell", PRESS_TAB)
def test_shells_complete_verbs_flags_and_values(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    program = tmp_path / "iceberg-compact"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",  # else the shell that runs the tests is completed
    }
    for words, wanted, unwanted in (
        ("ver", {"verify", "version"}, "undo"),
        ("undo --dry", {"--dry-run"}, "--branch"),
        ("run --strategy d", {"delete-files", "dimensional"}, "small-files"),
        ("run --engine in", {"inline"}, "spark"),
    ):
        code = PRESS_TAB[shell].format(words=words)
        ended = subprocess.run([shell, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
        assert ended.returncode == 0, ended.stderr
        assert all(word in ended.stdout for word in wanted), ended
        assert unwanted not in ended.stdout
        assert "Traceback" not in ended.stderr

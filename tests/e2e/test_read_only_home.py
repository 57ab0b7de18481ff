"""Commands where little can be written beside the lake: no home, a home that is read-only, a read-only root as in a
container. They work, with one line at most about what is not remembered."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.factories import lake as lakes
from typer.testing import CliRunner

from iceberg_compaction.interfaces.cli.app import app

COMMAND = "from iceberg_compaction.interfaces.cli import main; main()"
UNSHARE = shutil.which("unshare")
NOTE = "Runs are not remembered, and files of a run that is killed stay: "
_VARIABLES = ("ICEBERG_COMPACTION_CACHE", "ICEBERG_COMPACTION_STATE", "XDG_CACHE_HOME", "XDG_STATE_HOME", "HOME")


@pytest.fixture(params=["no home", "no folder"])
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the note says about it. No folder can be made below a file, even by root."""
    for variable in _VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    if request.param == "no home":
        return "there is no home folder"
    (tmp_path / "home").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return f"{tmp_path}/home/.local/state/iceberg-compaction/runs.db cannot be written"


@pytest.fixture
def lake(local_lake: lakes.Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> lakes.Lake:
    for name in ("a", "b"):
        lakes.append_small_files(lakes.make_table(local_lake.catalog, f"db.{name}"), 6)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return local_lake


@pytest.mark.parametrize(
    "command",
    [["doctor"], ["plan", "--table", "db.a"], ["manifests", "--table", "db.*", "--dry-run"], ["history"], ["cache"]],
    ids=lambda command: command[0],
)
def test_a_command_that_reads_says_nothing_about_it(lake: lakes.Lake, home: str, command: list[str]) -> None:
    flags = [] if command[0] in ("history", "cache") else ["--catalog-uri", str(lake.settings.uri)]
    result = CliRunner().invoke(app, [*command, *flags, "--no-progress"])
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize("command", [["run", "--engine", "inline"], ["manifests"]], ids=lambda command: command[0])
def test_a_command_that_writes_says_it_once(
    lake: lakes.Lake, home: str, command: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    flags = ["--catalog-uri", str(lake.settings.uri), "--table", "db.*", "--no-progress"]
    result = CliRunner().invoke(app, [*command, *flags])
    assert result.exit_code == 0, result.output
    assert result.stderr.count("\n") == 1
    assert f"{NOTE}{home}; choose a store with --store or STORE_URL." in result.stderr
    assert list(Path.cwd().iterdir()) == []


READ_ONLY = """
mount --bind "$LAKE" "$LAKE" && mount -o remount,bind,ro / && exec "$@"
"""


@pytest.mark.parametrize("verb", ["doctor", "run"])
def test_a_root_that_is_read_only_is_no_obstacle(lake: lakes.Lake, tmp_path: Path, verb: str) -> None:
    """Nothing but the lake can be written, not even a folder for temporary files."""
    inside = ["doctor"] if verb == "doctor" else ["run", "--engine", "inline", "--table", "db.a"]
    variables = {key: value for key, value in os.environ.items() if key not in (*_VARIABLES, "TMPDIR")}
    environment = variables | {
        "LAKE": str(tmp_path / "lake"),
        "HOME": "/home/nobody-has",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    namespace = [str(UNSHARE), "--user", "--map-root-user", "--mount", "sh", "-c", READ_ONLY, "sh"]
    if UNSHARE is None or subprocess.run([*namespace, "true"], env=environment, capture_output=True).returncode:
        pytest.skip("this system does not let users have namespaces of their own")
    command = [sys.executable, "-c", COMMAND, *inside, "--catalog-uri", str(lake.settings.uri), "--no-progress"]
    result = subprocess.run([*namespace, *command], env=environment, capture_output=True, text=True, cwd="/")
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("\n") == (1 if verb == "run" else 0)

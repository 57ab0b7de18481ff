"""The lock files hold what pyproject.toml asks for, in versions that it allows, each with hashes and without a host."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
_PIN = re.compile(r"^([\w.-]+)==([^ ;\\]+).*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)


def wanted() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    names = [
        *project["project"]["dependencies"],
        *extras["spark"],
        *extras["connect"],
        *project["dependency-groups"]["dev"],
    ]
    return [Requirement(name) for name in names]


def test_the_lock_is_up_to_date() -> None:
    pins: dict[str, list[str]] = {}
    for name, version in _PIN.findall((ROOT / "requirements.lock").read_text()):
        pins.setdefault(name, []).append(version)
    for requirement in wanted():
        versions = pins.get(requirement.name, [])
        assert versions, f"{requirement.name} is not locked; run make lock"
        assert all(requirement.specifier.contains(version) for version in versions), requirement


def test_everything_is_hashed_and_nothing_names_a_host() -> None:
    for file in ("requirements.lock", "requirements-build.lock"):
        text = (ROOT / file).read_text()
        pins = [match[0] for match in _PIN.finditer(text)]
        assert pins
        assert all("--hash=sha256:" in pin for pin in pins)
        assert "://" not in text

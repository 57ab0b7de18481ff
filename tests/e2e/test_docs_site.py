"""The site of the documentation builds without a warning, reads without a network, and has all options and names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
import typer.main

import iceberg_compaction
from iceberg_compaction.interfaces.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
# What a browser loads by itself; links that people follow may lead anywhere.
_LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?https?:|<link\b[^>]*rel=[\"']?stylesheet[^>]*https?:"
)


# `make docs` runs these, too.
pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a link or an anchor that leads nowhere is an error."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) >= 40
    assert not [page.name for page in pages if _LOADED.search(page.read_text(encoding="utf-8"))]


def test_every_option_of_every_verb_is_in_the_reference(site: Path) -> None:
    page = unescape((site / "reference" / "cli.html").read_text(encoding="utf-8"))
    sections = dict(re.findall(r'<h2 id="([^"]*)">(.*?)(?=<h2 |</article>)', page, re.DOTALL))
    for verb, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        shown = "".join(text for name, text in sections.items() if verb in (name, *name.split("-")))
        assert shown, f"the command line's page has no section on {verb}"
        shown += "".join(text for name, text in sections.items() if f'href="#{name}"' in shown)
        options = [name for one in command.params if not one.hidden for name in one.opts if name.startswith("--")]
        assert not [name for name in options if f"<code>{name}" not in shown], verb


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    page = (site / "reference" / "api.html").read_text(encoding="utf-8")
    for name in iceberg_compaction.__all__:
        assert name.startswith("__") or re.search(rf'<h3 id="[\w.]+\.{name}"', page), name


def test_examples_can_be_copied_without_a_prompt(site: Path) -> None:
    page = unescape(re.sub(r"<[^>]+>", "", (site / "reference" / "cli.html").read_text(encoding="utf-8")))
    assert "iceberg-compact doctor" in page
    assert "$ iceberg-compact" not in page

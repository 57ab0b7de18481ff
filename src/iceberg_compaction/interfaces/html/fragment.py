"""Parts of a page that stand in somebody else's page, such as the output of a notebook's cell. HTML comes in; the same
goes out with the report's looks, which reach nothing around it, and without a script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.interfaces.html import style

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SCOPE = ".iceberg-compaction"
_WHOLE_PAGE = (":root", "html", "body")
# Notebooks have themes of their own, whatever the system has: JupyterLab's attribute, the class of VS Code.
_THEMES = {
    style.LIGHT: ('[data-jp-theme-light="true"]', ".vscode-light"),
    style.DARK: ('[data-jp-theme-light="false"]', ".vscode-dark"),
}
_MORE = f"{SCOPE} {{ padding: 2px 14px; border-radius: 10px; }} {SCOPE} .tiles {{ margin: 14px 0; }}"


def fragment(parts: Iterable[str]) -> str:
    """The parts, which are HTML already, in the looks of all pages."""
    return f'<div class="{SCOPE[1:]}"><style>{looks()}</style>{"".join(parts)}</div>'


def looks() -> str:
    """The style sheet of pages, for elements of a fragment only."""
    themes = "".join(
        f"{', '.join(f'{around} {SCOPE}' for around in marks)} {{ {colours} }}" for colours, marks in _THEMES.items()
    )
    return scoped(style.STYLE) + themes + _MORE


def scoped(sheet: str) -> str:
    """The same rules for elements inside of the scope; those of the whole page are the scope's."""
    rules = []
    for prelude, body in _blocks(sheet):
        if prelude.startswith("@"):
            rules.append(f"{prelude}{{{scoped(body)}}}")
        else:
            rules.append(f"{','.join(map(_inside, prelude.split(',')))}{{{' '.join(body.split())}}}")
    return "".join(rules)


def _inside(selector: str) -> str:
    selector = " ".join(selector.split())
    return SCOPE if selector in _WHOLE_PAGE else f"{SCOPE} {selector}"


def _blocks(sheet: str) -> Iterator[tuple[str, str]]:
    """What is before the braces of each outer block, and what is in them."""
    begin = depth = opened = 0
    for at, letter in enumerate(sheet):
        if letter == "{":
            opened = at if depth == 0 else opened
            depth += 1
        elif letter == "}":
            depth -= 1
            if depth == 0:
                yield sheet[begin:opened].strip(), sheet[opened + 1 : at]
                begin = at + 1

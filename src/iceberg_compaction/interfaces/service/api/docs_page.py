"""The page of the REST interface for people: every route of the OpenAPI document with its parameters and answers, as
one HTML page that needs neither scripts nor the network."""

from __future__ import annotations

import json
from html import escape
from typing import Any

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1c1e21;background:#fff}
code,pre{font:13px/1.4 ui-monospace,monospace}pre{background:#f4f5f7;padding:.6rem;overflow:auto}
details{border:1px solid #d8dbe0;border-radius:6px;margin:.4rem 0;padding:.4rem .8rem}summary{cursor:pointer}
table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.2rem .6rem .2rem 0}
.m{display:inline-block;min-width:4.5em;font-weight:600}.soft{color:#5f6672}
@media(prefers-color-scheme:dark){body{color:#e4e6eb;background:#18191a}pre{background:#242526}details{border-color:#3a3b3c}}
"""


def render(document: dict[str, Any]) -> str:
    """The page of an OpenAPI document."""
    info = document["info"]
    routes: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            routes.setdefault((operation.get("tags") or ["other"])[0], []).append(_route(method, path, operation))
    sections = "".join(f"<h2>{escape(tag)}</h2>{''.join(each)}" for tag, each in routes.items())
    schemas = document.get("components", {}).get("schemas", {})
    models = "".join(_schema(name, schema) for name, schema in sorted(schemas.items()))
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(info['title'])} REST</title><style>{_STYLE}</style>"
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info.get('description', ''))}</p>"
        '<p class="soft">The same for programs: <a href="/openapi.json">openapi.json</a>. A token goes into the header '
        "<code>Authorization: Bearer TOKEN</code>, or is the password of HTTP Basic.</p>"
        f"{sections}<h2>Values</h2>{models}</html>"
    )


def _route(method: str, path: str, operation: dict[str, Any]) -> str:
    parameters = "".join(
        f"<tr><td><code>{escape(each['name'])}</code></td><td>{escape(each['in'])}"
        f"{', required' if each.get('required') else ''}</td>"
        f"<td>{_type(each.get('schema', {}))} {escape(each.get('description', ''))}</td></tr>"
        for each in operation.get("parameters", [])
    )
    body = operation.get("requestBody", {}).get("content", {})
    body_types = "".join(
        f"<p>Body: {_type(each.get('schema', {}))} ({escape(kind)})</p>" for kind, each in body.items()
    )
    answers = "".join(
        f"<tr><td><code>{escape(status)}</code></td><td>{escape(answer.get('description', ''))}</td>"
        f"<td>{', '.join(_type(each.get('schema', {})) for each in answer.get('content', {}).values())}</td></tr>"
        for status, answer in sorted(operation["responses"].items())
    )
    return (
        f'<details id="{escape(operation["operationId"])}"><summary><span class="m">{method.upper()}</span>'
        f"<code>{escape(path)}</code> <span class=soft>{escape(operation.get('summary', ''))}</span></summary>"
        f"<p>{escape(operation.get('description', ''))}</p>"
        f"{f'<table>{parameters}</table>' if parameters else ''}{body_types}<table>{answers}</table></details>"
    )


def _schema(name: str, schema: dict[str, Any]) -> str:
    text = escape(json.dumps(schema, indent=2, ensure_ascii=False))
    return f'<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary><pre>{text}</pre></details>'


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return f'<a href="#{escape(name)}"><code>{escape(name)}</code></a>'
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(_type(each) for each in schema[word])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return f"<code>{escape(str(schema.get('type', 'value')))}</code>"

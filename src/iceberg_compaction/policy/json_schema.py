"""The JSON schema of policy files, for editors: made of the classes, so that it never lags behind. It describes the
printed spelling; other spellings are read as well."""

from __future__ import annotations

import json
from typing import Any

from iceberg_compaction.model.triggers import TriggerPreset
from iceberg_compaction.policy import policy_keys, profiles


def schema() -> dict[str, Any]:
    """The schema as a document."""
    settings = _settings()
    entry = {"type": ["object", "null"], "properties": settings, "additionalProperties": True}
    tables = _entries({"$ref": "#/$defs/settings"})
    namespace = {**entry, "properties": {**settings, "tables": tables}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Policy of iceberg-compact",
        "description": "What is wanted for which table. Names are read in snake, kebab, camel and dotted form.",
        "type": "object",
        "properties": {
            "extends": {"type": ["string", "array"], "description": "weaker policy files, relative to this one"},
            "namespace": {"type": "string", "description": "of tables that are named without one"},
            **settings,
            "namespaces": _entries({"$ref": "#/$defs/namespace"}),
            "tables": tables,
            "environments": {
                "type": "object",
                "description": "what counts in one environment only, such as production",
                "additionalProperties": {"$ref": "#/$defs/namespace"},
            },
        },
        "$defs": {"settings": entry, "namespace": namespace},
    }


def text() -> str:
    """The schema as it is printed and kept in the documentation."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _entries(entry: dict[str, Any]) -> dict[str, Any]:
    listed = {"type": "array", "items": {"anyOf": [{"type": "string"}, entry]}}
    return {
        "description": "settings by name or pattern; the most specific one counts",
        "anyOf": [{"type": "object", "additionalProperties": entry}, listed],
    }


def _settings() -> dict[str, Any]:
    properties: dict[str, Any] = {"profile": {"enum": list(profiles.NAMES), "description": "defaults of another tool"}}
    for name, key in policy_keys.all_keys().items():
        *parents, last = name.split(".")
        part = properties
        for parent in parents:
            part = part.setdefault(parent, {"type": "object", "properties": {}})["properties"]
        part[last] = _value(key)
    triggers = properties.get("triggers", {})
    if "properties" in triggers:
        presets = [preset.value for preset in TriggerPreset]
        properties["triggers"] = {"anyOf": [{"enum": presets}, triggers]}
    schedule = properties["schedule"]
    properties["schedule"] = {"anyOf": [{"type": "string", "description": "five fields of cron"}, schedule]}
    return properties


def _value(key: policy_keys.PolicyKey) -> dict[str, Any]:
    made: dict[str, Any] = {"description": key.description} if key.description else {}
    default = getattr(key.default, "value", key.default)
    if isinstance(default, bool | int | float | str):
        made["default"] = default
    if key.choices:
        return {**made, "enum": list(key.choices)}
    if key.kind is not policy_keys.KeyKind.PLAIN:
        example = "512MB" if key.kind is policy_keys.KeyKind.SIZE else "5d"
        return {**made, "type": ["string", "number"], "examples": [example]}
    if key.name == "quiet-hours":
        return {**made, "type": ["string", "array", "object"], "examples": ["mon-fri 8:00-18:00 Europe/Berlin"]}
    if isinstance(default, bool):
        return {**made, "type": "boolean"}
    if isinstance(default, int | float):
        return {**made, "type": "number"}
    return made

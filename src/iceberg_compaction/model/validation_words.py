"""Pydantic's words for a value that it refuses, as a person would say them."""

from __future__ import annotations

import re

_PREFIX = re.compile(r"\b(Value|Assertion) error, ")
_SENTENCES = (
    (re.compile(r"Input should be a valid integer(, .*)?"), "it must be a whole number"),
    (re.compile(r"Input should be a valid number(, .*)?"), "it must be a number"),
    (re.compile(r"Input should be a valid boolean(, .*)?"), "it must be true or false"),
    (re.compile(r"Input should be greater than or equal to (\S+)"), r"it must be at least \1"),
    (re.compile(r"Input should be less than or equal to (\S+)"), r"it must be at most \1"),
    (re.compile(r"Input should be greater than (\S+)"), r"it must be above \1"),
    (re.compile(r"Input should be less than (\S+)"), r"it must be below \1"),
    (re.compile(r"Input should be a valid dictionary( or .*)?"), "it must be a mapping of names to values"),
    (re.compile(r"Input should be a valid (tuple|list)"), "it must be a list"),
    (re.compile(r"Input should be a valid string"), "it must be text"),
    (re.compile(r"String should match pattern '\^\(([\w|-]+)\)\$'"), r"it must be one of \1"),
    (re.compile(r"String should match pattern '\^https\?://.*'"), "it must begin with http:// or https://"),
    (re.compile(r"String should match pattern '(.+)'"), r"it does not fit \1"),
    (re.compile(r"String should have at (least|most) (\d+ characters?)"), r"it must have at \1 \2"),
    (re.compile(r"Input should be (.+)"), r"it must be \1"),
    (re.compile(r"Field required"), "it is missing"),
    (re.compile(r"Extra inputs are not permitted"), "it is not known"),
)


def text(message: str) -> str:
    """The message without its technical prefix, and without a full stop, because it becomes part of a sentence."""
    plain = _PREFIX.sub("", " ".join(message.split())).rstrip(".")
    for pattern, words in _SENTENCES:
        plain = pattern.sub(words, plain)
    return plain.replace("|", ", ") if plain.startswith("it must be one of ") else plain

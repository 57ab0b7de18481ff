"""What AWS Glue's client needs beyond PyIceberg's defaults: numbers as numbers, and an end to its patience. Properties
come in and go out."""

from __future__ import annotations

from typing import Any

from iceberg_compaction import errors
from iceberg_compaction.storage import s3_client

_RETRIES = "glue.max-retries"


def client_properties(properties: dict[str, Any]) -> dict[str, Any]:
    """The same properties, as the client takes them. PyIceberg's own ten tries take a minute and more to find out that
    nobody answers; and it hands the words of a property to a client that counts with them."""
    given = properties.get(_RETRIES, s3_client.TRIES)
    try:
        tries = int(given)
    except ValueError:
        tries = 0
    if tries < 1:
        raise errors.ConfigError(f"{_RETRIES} must be a number of tries, 1 or more.")
    return properties | {_RETRIES: tries}

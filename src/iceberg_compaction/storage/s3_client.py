"""How Arrow's S3 client is set up, unless somebody says otherwise. Its own defaults, three tries and three seconds of
silence, are meant for queries that a person repeats. What is written can only be tried again inside the client: an
upload that fails leaves a file that nobody can go on with. PyIceberg finds the class by the property."""

from __future__ import annotations

from pyarrow import fs

TRIES = 5  # of each request; from the first to the last about ten seconds go by
DEFAULTS = {
    "s3.connect-timeout": "10",  # seconds
    "s3.request-timeout": "30",  # seconds without a byte
    "s3.retry-strategy-impl": f"{__name__}.Retries",
}


class Retries(fs.AwsStandardS3RetryStrategy):  # type: ignore[misc] # Arrow has no types
    """Amazon's own: waits that double, shortened by chance."""

    def __init__(self) -> None:
        super().__init__(max_attempts=TRIES)

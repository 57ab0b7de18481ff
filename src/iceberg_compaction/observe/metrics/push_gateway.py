"""Metrics at a push gateway. Counters go on from those that the gateway has of the same group, because a run is a
process of its own and a gateway keeps the last values only."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import requests

from iceberg_compaction.observe.metrics import metric_values, prometheus_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.observe.metrics.metric_values import Snapshot

_SECONDS = 5.0
_JOB, _SCOPE, _SEVERAL = "iceberg_compaction", "scope", "several"
_MARK = "/metrics/job/"


class PushGateway:
    """A group of metrics at a gateway. The URL may name the group itself: .../metrics/job/NAME/LABEL/VALUE."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        prefix, mark, group = parts.path.partition(_MARK)
        self.host = parts.hostname
        self._root = urlunsplit((parts.scheme, parts.netloc, prefix.rstrip("/"), "", ""))
        self._group = _labels(f"job/{group}") if mark else {"job": _JOB, _SCOPE: _SEVERAL}
        self._chosen = bool(mark)
        self._earlier: Snapshot | None = None  # None: not asked for yet

    def begin(self, tables: Sequence[str]) -> None:
        """Runs on one table push to a group of its own, so that those of several tables do not meet."""
        if not self._chosen and self._earlier is None:
            self._group[_SCOPE] = tables[0] if len(tables) == 1 else _SEVERAL

    def push(self, now: Snapshot) -> None:
        """Raises OSError or ValueError if the gateway cannot be reached, or says no."""
        with requests.Session() as session:
            if self._earlier is None:
                answer = session.get(f"{self._root}/metrics", timeout=_SECONDS)
                answer.raise_for_status()
                self._earlier = prometheus_text.parse(answer.text, self._group)
            content = prometheus_text.text(metric_values.merge(self._earlier, now, {}))
            session.put(f"{self._root}{_path(self._group)}", data=content, timeout=_SECONDS).raise_for_status()


def _labels(path: str) -> dict[str, str]:
    words = [unquote(word) for word in path.strip("/").split("/")]
    return dict(zip(words[::2], words[1::2], strict=False))


def _path(group: dict[str, str]) -> str:
    """Values with a slash have a form of their own."""
    words = ["/metrics"]
    for name, label in group.items():
        if "/" in label:
            words += [f"{name}@base64", base64.urlsafe_b64encode(label.encode()).decode()]
        else:
            words += [name, quote(label, safe="")]
    return "/".join(words)

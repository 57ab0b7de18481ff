"""One notice over HTTP: as the JSON of the notice, or as a message that Slack and what understands its format show.
UnreachableError: the receiver did not take it. No sentence has the URL in it, which may hold a secret."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from iceberg_compaction import errors

if TYPE_CHECKING:
    from iceberg_compaction.interfaces.service.service_settings import WebhookSettings
    from iceberg_compaction.model.notice import Notice

_TIMEOUT_S = 10.0
_ICONS = {
    "failed": ":x:",
    "done": ":white_check_mark:",
    "suspended": ":double_vertical_bar:",
    "budget": ":money_with_wings:",
    "unknown-commit": ":grey_question:",
    "worse": ":chart_with_downwards_trend:",
}


def wants(settings: WebhookSettings, notice: Notice) -> bool:
    """Whether a webhook asks for such notices."""
    of_tenant = settings.tenants is None or (notice.tenant is not None and notice.tenant in settings.tenants)
    return of_tenant and notice.kind in settings.events


def body(settings: WebhookSettings, notice: Notice) -> dict[str, Any]:
    """The JSON that is sent."""
    if settings.format == "json":
        return notice.model_dump(mode="json")
    name = ".".join(filter(None, (notice.catalog, notice.table)))
    words = f"{_ICONS[notice.kind.value]} *{_escaped(name) or 'iceberg-compaction'}* {_escaped(notice.sentence)}"
    return {"text": words + (f" (run {notice.run_id[:8]})" if notice.run_id else "")}


def send(settings: WebhookSettings, notice: Notice) -> None:
    """Send it once."""
    import requests

    content = json.dumps(body(settings, notice)).encode()
    headers = {"Content-Type": "application/json", "X-Notice-Id": notice.notice_id}
    if settings.secret:
        signature = hmac.new(settings.secret.encode(), content, hashlib.sha256).hexdigest()
        headers["X-Signature-256"] = f"sha256={signature}"
    host = urlsplit(settings.url).hostname or "the webhook"
    try:
        # A redirect could lead anywhere, with the notice.
        answer = requests.post(settings.url, data=content, headers=headers, timeout=_TIMEOUT_S, allow_redirects=False)
    except (requests.RequestException, ValueError) as error:
        raise errors.UnreachableError(f"{host} did not take a notice: {type(error).__name__}.") from None
    if not answer.ok or answer.is_redirect:
        raise errors.UnreachableError(f"{host} did not take a notice: it answered {answer.status_code}.")


def _escaped(text: str) -> str:
    """Slack reads these three as markup, mentions among it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

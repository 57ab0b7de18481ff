"""Services for tests: houses over a lake and a store, servers that answer on a loopback port, tokens of every role."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import requests

from iceberg_compaction.interfaces.service import http_server, service_house, service_settings
from iceberg_compaction.interfaces.service.access import guard
from iceberg_compaction.interfaces.service.api import app_factory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iceberg_compaction.model.principal import Role
    from iceberg_compaction.settings import CatalogSettings

API = "/api/v1"
TENANTS = {"shop": {"tables": ["shop"]}, "bank": {"tables": ["bank.*"]}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service that answers."""

    url: str
    house: service_house.ServiceHouse
    app: Any
    secrets: dict[tuple[Role, str | None], str] = field(default_factory=dict)

    def ask(self, method: str, path: str, *, token: str | None = None, **more: Any) -> requests.Response:
        """One request; paths without a slash are of the API."""
        headers = dict(more.pop("headers", {}))
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        url = self.url + (path if path.startswith("/") else f"{API}/{path}")
        return requests.request(method, url, headers=headers, timeout=30, **more)

    def get(self, path: str, **more: Any) -> Any:
        """The JSON of an answer that must be good."""
        answer = self.ask("GET", path, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def token(self, role: Role, tenant: str | None = None) -> str:
        """The secret of a token of this role, of one tenant or of all."""
        if (role, tenant) not in self.secrets:
            tenants = None if tenant is None else (tenant,)
            made = guard.token_book(self.house).create(f"{role.value} {tenant}", role, tenants=tenants)
            self.secrets[role, tenant] = made.secret
        return self.secrets[role, tenant]


def make_house(lake: CatalogSettings | None = None, **given: Any) -> service_house.ServiceHouse:
    """The house of a lake, with its runs in memory unless something else is given."""
    catalog = {"uri": "sqlite:///nowhere.db"} if lake is None else {**lake.model_dump(), "name": lake.name or "default"}
    flags = {"store": "memory://", "catalogs": {"lake": {**catalog, "engine": "inline"}}, **given}
    return service_house.build(service_settings.load(flags, None, {}))


@contextlib.contextmanager
def running(house: service_house.ServiceHouse) -> Iterator[Service]:
    """The REST interface of a house on a free port. No worker works."""
    app = app_factory.make_app(house)
    listener = http_server.listen("127.0.0.1", 0)
    limits = house.settings.limits
    server = http_server.make_server(app, request_seconds=limits.request_seconds, grace_s=1)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started:
        assert thread.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    try:
        yield Service(url=f"http://127.0.0.1:{listener.getsockname()[1]}", house=house, app=app)
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        listener.close()

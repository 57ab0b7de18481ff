"""The URL of a server that keeps entries, for clients and, without its secrets, for people."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib import parse

from iceberg_compaction import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_PREFIX = "iceberg_compaction"
_PREFIX = re.compile(r"[a-z_][a-z0-9_]{0,39}")  # a name that every server takes without quotes
_SECRET_OPTIONS = {"password", "sslpassword"}
_HIDDEN = "***"
_SYSTEM_ERROR = re.compile(r"\[Errno -?\d+\] ([^\"')]+)")


def hidden(url: str) -> str:
    """A URL that cannot be taken apart, without anything that may be a password."""
    scheme, mark, rest = url.partition(":")
    slashes = "//" if rest.startswith("//") else ""
    return f"{scheme}{mark}{slashes}{rest.removeprefix('//').rpartition('@')[2]}"


def _url(scheme: str, netloc: str, path: str, query: str) -> str:
    """`urlunsplit` leaves `//` out where there is no host, as in a URL of a PostgreSQL that listens in a folder."""
    return f"{scheme}://{netloc}{path}" + (f"?{query}" if query else "")


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """A URL, whose option `prefix` is ours and separates stores in one server."""

    given: str

    def __str__(self) -> str:
        """The URL without secrets."""
        parts = self.parts
        host = parts.netloc.rpartition("@")[2]
        user = parse.quote(parts.username or "", safe="")
        login = f"{user}:{_HIDDEN}@" if parts.password else f"{user}@" if user else ""
        options = [
            (name, _HIDDEN if name in _SECRET_OPTIONS else value) for name, value in parse.parse_qsl(parts.query)
        ]
        return _url(parts.scheme, login + host, parts.path, parse.urlencode(options, safe="*/:"))

    @property
    def parts(self) -> parse.SplitResult:
        return parse.urlsplit(self.given)

    @property
    def options(self) -> dict[str, str]:
        return dict(parse.parse_qsl(self.parts.query))

    @property
    def prefix(self) -> str:
        """The name of the store within its server."""
        prefix = self.options.get("prefix", DEFAULT_PREFIX)
        if not _PREFIX.fullmatch(prefix):
            raise errors.ConfigError(
                f"The prefix {prefix!r} of the run store {self} is not a name; use lower-case letters, digits and _, "
                "40 characters at most."
            )
        return prefix

    @property
    def client_url(self) -> str:
        """The URL for a client that knows neither our option nor the drivers of others, as in `postgresql+psycopg`."""
        query = parse.urlencode({name: value for name, value in self.options.items() if name != "prefix"}, safe="/:")
        return _url(self.parts.scheme.partition("+")[0], self.parts.netloc, self.parts.path, query)

    def reason(self, error: BaseException) -> str:
        """The words of an error in one line and without secrets."""
        text = str(error) or getattr(error, "detail_text", None) or type(error).__name__
        if system := _SYSTEM_ERROR.search(text):  # clients wrap it in their own terms
            text = system[1]
        text = " ".join(text.split()).rstrip(".")
        secrets = [self.parts.password, *(value for name, value in self.options.items() if name in _SECRET_OPTIONS)]
        for secret in filter(None, secrets):
            for form in (secret, parse.unquote(secret)):
                text = text.replace(form, _HIDDEN)
        return text

    @contextlib.contextmanager
    def translated(self, done: str, *kinds: type[BaseException]) -> Iterator[None]:
        """Errors of a client as one sentence."""
        try:
            yield
        except kinds as error:
            raise errors.StoreError(
                f"The run store {self} cannot be {done}: {self.reason(error)}; check it or choose another one."
            ) from error

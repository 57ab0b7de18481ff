"""JDBC's way of naming a database, said in SQLAlchemy's: the URI of a Spark JDBC catalog comes in, the URI that
PyIceberg's SQL catalog opens goes out."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from iceberg_compaction import errors

# Parameters that both the JDBC driver and libpq know by the same name.
_SHARED_PARAMETERS = ("sslmode", "sslcert", "sslkey", "sslrootcert")


def sqlalchemy_uri(uri: str, user: str | None = None, password: str | None = None) -> str:
    """`jdbc:sqlite:/p` becomes `sqlite:////p`, `jdbc:postgresql://h/d` with user and password
    `postgresql://user:password@h/d`."""
    if not uri.startswith("jdbc:"):
        raise errors.ConfigError(
            "The URI of a JDBC catalog must begin with jdbc:, like jdbc:postgresql://host/database."
        )
    rest = uri.removeprefix("jdbc:")
    if rest.startswith("sqlite:"):
        path = rest.removeprefix("sqlite:").partition("?")[0].removeprefix("file:")
        return f"sqlite:///{path}"
    parts = urlsplit(rest)
    if not parts.scheme or not parts.netloc:
        raise errors.ConfigError("The JDBC URI names no server; write it like jdbc:postgresql://host/database.")
    parameters = dict(parse_qsl(parts.query))
    user = user or parameters.get("user") or parts.username
    password = password or parameters.get("password") or parts.password
    account = quote(user, safe="") if user else ""
    if password:
        account += ":" + quote(password, safe="")
    host = parts.netloc.rpartition("@")[2]
    query = urlencode({key: parameters[key] for key in _SHARED_PARAMETERS if key in parameters})
    return urlunsplit((parts.scheme, f"{account}@{host}" if account else host, parts.path, query, ""))

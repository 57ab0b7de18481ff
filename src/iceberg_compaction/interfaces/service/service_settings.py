"""How a service is set up, as one value with each field documented. Flags come before the environment, and that before
the YAML file; a field of the file that nobody knows is an error."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import pydantic
from pydantic import Field

from iceberg_compaction import errors, settings
from iceberg_compaction.model import validation_words
from iceberg_compaction.model.byte_size import ByteSize
from iceberg_compaction.model.notice import NoticeKind
from iceberg_compaction.model.principal import Role
from iceberg_compaction.model.table_policy import Seconds, parse_duration
from iceberg_compaction.model.value import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

PORT = 8080
LOOPBACK = ("127.0.0.1", "::1", "localhost")
_MOST_BYTES = 1_000_000  # of the file


def _seconds_or_zero(value: Any) -> float:
    return 0.0 if value in (0, "0", "0s") and not isinstance(value, bool) else parse_duration(value)


SecondsOrZero = Annotated[float, pydantic.BeforeValidator(_seconds_or_zero)]


class ServiceRole(str, Enum):
    """What a process of the service does. Closed set."""

    ALL = "all"
    API = "api"  # answers requests; does no heavy work
    WORKER = "worker"  # looks after schedules and does the work; answers /healthz, /readyz and /metrics only


class AuthMode(str, Enum):
    """Who may ask. Closed set."""

    TOKENS = "tokens"  # tokens of our own, and those of the OIDC provider if there is one
    NONE = "none"  # everybody may do everything


class ServedCatalog(settings.CatalogSettings):
    """One catalog, as on the command line, and how much is done there at a time."""

    engine: Annotated[str, Field(description="auto, spark, inline, or an installed engine")] = "auto"
    master: Annotated[str | None, Field(description="of the Spark cluster; default: an embedded one")] = None
    max_runs: Annotated[int, Field(ge=1, le=1000, description="runs at work at a time")] = 4
    requests_per_second: Annotated[float | None, Field(gt=0, description="to the catalog; default: no limit")] = None
    storage_requests_per_second: Annotated[
        float | None, Field(gt=0, description="to S3, of each process that works; default: no limit")
    ] = None
    namespace: Annotated[str | None, Field(description="of tables that are named without one")] = None
    tables: Annotated[tuple[str, ...], Field(description="patterns of those that the service looks after")] = ("*",)


class TenantSettings(Value):
    """One tenant."""

    tables: Annotated[tuple[str, ...], Field(min_length=1, description="namespaces, names or patterns")]
    max_runs: Annotated[int | None, Field(ge=1, description="runs at work at a time; default: no limit")] = None
    hourly_cost_limit: Annotated[float | None, Field(ge=0, description="dollars of all its runs in an hour")] = None


class OidcSettings(Value):
    """A provider whose bearer tokens are accepted."""

    issuer: Annotated[str, Field(description="`iss` of its tokens, and where its configuration is")]
    audience: Annotated[str, Field(min_length=1, description="`aud` of tokens that are meant for the service")]
    jwks_url: Annotated[str | None, Field(description="default: as the issuer's openid-configuration says")] = None
    role_claim: Annotated[str, Field(description="may lie deeper: realm_access.roles")] = "role"
    roles: Annotated[dict[str, Role], Field(description="role by value of the claim; default: their own names")] = {}
    tenants_claim: Annotated[str | None, Field(description="default: all tenants")] = None
    name_claim: Annotated[str, Field(description="the name in the audit log")] = "sub"


class LimitSettings(Value):
    """What one client may ask for."""

    body: Annotated[ByteSize, Field(gt=0, description="of a request")] = 1 << 20
    requests_per_minute: Annotated[int, Field(gt=0, description="of one token or address")] = 6000
    queued_runs: Annotated[int, Field(gt=0, description="of one tenant")] = 1000
    request_seconds: Annotated[Seconds, Field(gt=0, description="until headers and body must be there")] = 30.0


class SchedulerSettings(Value):
    """How closely tables are looked after."""

    enabled: Annotated[bool, Field(description="false: only work that is asked for is done")] = True
    tick: Annotated[Seconds, Field(gt=0, description="between two looks at all schedules")] = 10.0
    jitter: Annotated[SecondsOrZero, Field(ge=0, description="by which due times are spread at most")] = 30.0
    least_look: Annotated[Seconds, Field(gt=0, description="a busy table is looked at as often as this")] = 60.0
    most_look: Annotated[Seconds, Field(gt=0, description="a quiet table is looked at as rarely as this")] = 6 * 3600.0
    suspend_after: Annotated[int, Field(ge=1, description="failures in a row")] = 3
    loads_per_minute: Annotated[int, Field(gt=0, description="of tables, where the catalog cannot list changes")] = 100


class WebhookSettings(Value):
    """Where alerts and ends of runs are sent to."""

    url: Annotated[str, Field(repr=False, pattern="^https?://.", description="of the receiver")]
    secret: Annotated[str | None, Field(repr=False, description="signs each notice, in the header X-Signature-256")] = (
        None
    )
    format: Annotated[str, Field(pattern="^(json|slack)$", description="json, or slack")] = "json"
    events: Annotated[
        tuple[NoticeKind, ...], Field(description="failed, suspended, budget, unknown-commit, worse, done")
    ] = tuple(kind for kind in NoticeKind if kind is not NoticeKind.DONE)
    tenants: Annotated[tuple[str, ...] | None, Field(description="default: all")] = None


class ServiceSettings(Value):
    """The whole service."""

    host: Annotated[
        str | None, Field(description="the address; default: loopback without tokens, all with them or with AUTH=none")
    ] = None
    port: Annotated[int, Field(ge=0, le=65535, description="0: a free one")] = PORT
    role: Annotated[ServiceRole, Field(description="all, api or worker")] = ServiceRole.ALL
    auth: Annotated[AuthMode | None, Field(description="default: tokens once there is one, else loopback only")] = None
    store: Annotated[str | None, Field(repr=False, description="the run store, a file or a URL")] = None
    policy_file: Annotated[str | None, Field(description="read again when it changes")] = None
    environment: Annotated[str | None, Field(description="of the policy file")] = None
    catalogs: dict[str, ServedCatalog] = {}
    tenants: dict[str, TenantSettings] = {}
    oidc: OidcSettings | None = None
    limits: LimitSettings = LimitSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    webhooks: tuple[WebhookSettings, ...] = ()
    max_runs: Annotated[int, Field(ge=1, le=1000, description="at work at a time, of one worker")] = 2
    max_runs_of_all: Annotated[int | None, Field(ge=1, description="of all workers; default: no limit")] = None
    cpu_share: Annotated[float, Field(gt=0, le=1, description="of the cores of a worker that runs may use")] = 1.0
    grace: Annotated[SecondsOrZero, Field(ge=0, description="that runs have to end after SIGTERM")] = 25.0
    takeover: Annotated[Seconds, Field(gt=0, description="a worker that is silent for so long has lost its work")] = (
        30.0
    )

    @property
    def default_catalog(self) -> str:
        """The catalog of requests that name none: the first one."""
        return next(iter(self.catalogs))


def load(flags: Mapping[str, Any], file: str | None, environ: Mapping[str, str]) -> ServiceSettings:
    """The settings. `flags`: fields that were given, `catalog`: the CatalogFlags of the command line, and `of_catalog`:
    further fields of that catalog. ConfigError: the file or a value cannot be used."""
    given = dict(flags)
    catalog_flags = given.pop("catalog", settings.CatalogFlags())
    of_catalog = given.pop("of_catalog", {})
    chosen = {**_read(file), **_from_environment(environ), **given}
    chosen.setdefault("store", settings.load_store(environ))
    catalogs = dict(chosen.get("catalogs") or {})
    names_one = any((catalog_flags.name, catalog_flags.uri, catalog_flags.type, catalog_flags.spark_catalog))
    in_environment = any(environ.get(name) for name in ("CATALOG_URI", "CATALOG_TYPE", "CATALOG_NAME"))
    if names_one or not catalogs or in_environment:
        made = settings.load_catalog_settings(catalog_flags, environ)
        more = {"namespace": settings.load_namespace(environ), **of_catalog}
        catalogs = {made.name: {**made.model_dump(), **more}, **{k: v for k, v in catalogs.items() if k != made.name}}
    chosen["catalogs"] = {
        name: {"name": name, **entry} if isinstance(entry, dict) else entry for name, entry in catalogs.items()
    }
    try:
        return ServiceSettings.model_validate(chosen)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the settings"
        origin = f"{file}: " if file else ""
        raise errors.ConfigError(f"{origin}{where}: {validation_words.text(first['msg'])}.") from None


_VARIABLES = {
    "HOST": "host",
    "PORT": "port",
    "SERVICE_ROLE": "role",
    "AUTH": "auth",
    "POLICY_FILE": "policy_file",
    "MAX_RUNS": "max_runs",
}


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    chosen: dict[str, Any] = {field: environ[name] for name, field in _VARIABLES.items() if environ.get(name)}
    if environ.get("STORE_URL") or environ.get("REDIS_URL"):
        chosen["store"] = settings.load_store(environ)
    if environ.get("OIDC_ISSUER"):
        chosen["oidc"] = {"issuer": environ["OIDC_ISSUER"], "audience": environ.get("OIDC_AUDIENCE", "")}
    return chosen


def _read(file: str | None) -> dict[str, Any]:
    if file is None:
        return {}
    import yaml

    try:
        with open(file, encoding="utf-8") as stream:
            content = yaml.safe_load(stream.read(_MOST_BYTES))
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise errors.ConfigError(f"The settings {file} cannot be read: {words}.") from None
    except yaml.YAMLError as error:
        line = getattr(getattr(error, "problem_mark", None), "line", 0) + 1
        raise errors.ConfigError(f"{file}, line {line}: this is no YAML.") from None
    if not isinstance(content, dict):
        raise errors.ConfigError(f"The settings {file} must be a mapping such as `catalogs: ...`.")
    return {str(name).replace("-", "_"): value for name, value in content.items()}

"""Trouble with catalogs and stores as people see it: each kind has a sentence with a remedy, and `doctor` calls the
table unreachable. The store is a real one; answers that only Amazon gives come from a gate before it."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import fs
from pyiceberg.catalog.sql import SqlCatalog
from tests.factories import certificates, servers
from tests.factories import gate as gates
from tests.factories import lake as lakes
from typer.testing import CliRunner

from iceberg_compaction.interfaces.cli.app import app
from iceberg_compaction.storage import passing_faults
from iceberg_compaction.storage.s3 import plain_requests

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typer.testing import Result

pytestmark = pytest.mark.server

WRONG = "not-the-key-0123"
KEY, SECRET, ENDPOINT, TOKEN = "s3.access-key-id", "s3.secret-access-key", "s3.endpoint", "s3.session-token"
CLOSED = "http://127.0.0.1:1"  # nobody listens on a port that only root may have
NO_HOST = "http://store.invalid:9000"

# What is changed in the properties; the sentence. None takes a property out.
CASES: dict[str, tuple[dict[str, str | None], str]] = {
    "no credentials": (
        {KEY: None, SECRET: None},
        "There are no credentials for s3://{bucket} at {endpoint}; set s3.access-key-id and s3.secret-access-key of "
        "the catalog, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run where a role has access.",
    ),
    "wrong secret": (
        {SECRET: WRONG},
        "The secret key for s3://{bucket} is wrong: the store at {endpoint} refuses the signature; check "
        "s3.secret-access-key of the catalog, or AWS_SECRET_ACCESS_KEY.",
    ),
    "unknown key": (
        {KEY: WRONG},
        "The store of s3://{bucket} at {endpoint} does not know the access key; check s3.access-key-id and "
        "s3.secret-access-key of the catalog, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
    ),
    "dead endpoint": (
        {ENDPOINT: CLOSED},
        f"Nothing answers at {CLOSED} for the store of s3://{{bucket}} (Connection refused); check s3.endpoint, and "
        "that the server is running.",
    ),
    "no such host": (
        {ENDPOINT: NO_HOST},
        "The store of s3://{bucket} is not reached: the host store.invalid has no address here; check s3.endpoint and "
        "the network.",
    ),
    "no TLS": (
        {ENDPOINT: "https://{netloc}"},
        "The store of s3://{bucket} at https://{netloc} does not speak TLS; write http:// instead of https:// in "
        "s3.endpoint.",
    ),
}
# S3's code and status, with what else the answer says; the sentence.
ANSWERS: dict[str, tuple[int, str, str, str]] = {
    "expired token": (
        400,
        "ExpiredToken",
        "",
        "The session token for s3://{bucket} has expired; get new credentials and set them in AWS_ACCESS_KEY_ID, "
        "AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or in s3.session-token and its keys.",
    ),
    "invalid token": (
        400,
        "InvalidToken",
        "",
        "The session token for s3://{bucket} is not valid at {endpoint}; check ",
    ),
    "wrong region": (
        400,
        "AuthorizationHeaderMalformed",
        "<Region>eu-west-1</Region>",
        'The bucket "{bucket}" is in the region eu-west-1, but requests are signed for us-east-1; set '
        "s3.region=eu-west-1 or AWS_REGION=eu-west-1.",
    ),
    "other region": (301, "PermanentRedirect", "", 'The bucket "{bucket}" is not in the region us-east-1; set s3.regi'),
    "wrong clock": (403, "RequestTimeTooSkewed", "", "The clock of this machine and that of the store at {endpoint} "),
    "denied": (403, "AccessDenied", "", "The credentials may not read s3://{bucket}/"),
}


class Lake:
    """One table in a store, and the command line pointed at it with properties that may be wrong."""

    def __init__(self, settings: Any, bucket: str, server: servers.S3Server, table: str) -> None:
        self.settings, self.bucket, self.server, self.table = settings, bucket, server, table

    def doctor(self, changes: dict[str, str | None], *more: str) -> Result:
        netloc = self.server.s3_endpoint.removeprefix("http://")
        impatient = {"s3.retry-strategy-impl": "pyarrow.fs.AwsDefaultS3RetryStrategy"}
        properties = {**self.settings.properties, **impatient, **changes}
        flags = ["--catalog-uri", str(self.settings.uri), "--warehouse", str(self.settings.warehouse)]
        for key, value in properties.items():
            if value is not None:
                flags += ["--catalog-property", f"{key}={value.replace('{netloc}', netloc)}"]
        return CliRunner().invoke(app, ["doctor", *more, *flags], env={"NO_COLOR": "1", "HOME": "/nonexistent"})

    def sentence(self, template: str, endpoint: str) -> str:
        netloc = self.server.s3_endpoint.removeprefix("http://")
        return template.format(bucket=self.bucket, endpoint=endpoint, netloc=netloc)


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passing_faults, "USUAL", passing_faults.Patience(retries=1, sleep=lambda seconds: None))
    monkeypatch.setattr(plain_requests, "_PATIENCE", passing_faults.Patience(retries=1, sleep=lambda seconds: None))


@pytest.fixture(params=["sql", "rest"])
def troubled(
    request: pytest.FixtureRequest, s3_server: servers.S3Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lake]:
    """The files are read by PyIceberg first where the catalog is a database, and by us first where it is a server."""
    name = f"t{uuid.uuid4().hex[:12]}"
    if request.param == "rest":
        lake = lakes.rest_lake(s3_server, namespace=name)
        bucket = s3_server.bucket
    else:
        lake, bucket = sql_lake(s3_server, name, tmp_path_factory.mktemp("catalog")), name
    lakes.append_small_files(lakes.make_table(lake.catalog, lake.name("events")), 1)
    yield Lake(lake.settings, bucket, s3_server, lake.name("events"))
    lake.catalog.close()


def sql_lake(server: servers.S3Server, bucket: str, folder: Path) -> lakes.Lake:
    store = fs.S3FileSystem(
        endpoint_override=server.s3_endpoint,
        access_key=server.access_key,
        secret_key=server.secret_key,
        region="us-east-1",
        allow_bucket_creation=True,
    )
    store.create_dir(bucket)
    uri, warehouse = f"sqlite:///{folder / 'catalog.db'}", f"s3://{bucket}/lake"
    catalog = SqlCatalog("default", uri=uri, warehouse=warehouse, **server.s3_properties)
    catalog.create_namespace("db")
    settings = lakes.CatalogSettings(uri=uri, warehouse=warehouse, properties=server.s3_properties)
    return lakes.Lake(settings=settings, catalog=catalog, namespace="db")


@pytest.mark.parametrize("case", CASES)
def test_trouble_with_a_store_has_a_sentence_of_its_own(troubled: Lake, case: str) -> None:
    changes, template = CASES[case]
    result = troubled.doctor(changes, "--table", troubled.table)
    assert result.exit_code == 1
    assert result.stderr == f"error: {troubled.sentence(template, troubled.server.s3_endpoint)}\n"
    assert WRONG not in result.output


@pytest.mark.parametrize("case", ANSWERS)
def test_a_refusal_of_the_store_has_a_sentence_of_its_own(troubled: Lake, case: str) -> None:
    status, code, more, template = ANSWERS[case]
    answer = gates.s3_error(status, code)
    refusal = gates.Answer(
        status=status, headers=answer.headers, body=answer.body.replace(b"</Code>", b"</Code>" + more.encode())
    )
    with gates.gate(troubled.server.s3_endpoint, check=lambda request: refusal) as gate:
        result = troubled.doctor({ENDPOINT: gate.uri}, "--table", troubled.table)
        assert result.exit_code == 1
        assert result.stderr.startswith(f"error: {troubled.sentence(template, gate.uri)}")
        assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(("code", "words"), [("SignatureDoesNotMatch", "secret key"), ("ExpiredToken", "expired")])
def test_keys_of_the_environment_are_explained_as_well(
    troubled: Lake, code: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", troubled.server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", WRONG)
    with gates.gate(troubled.server.s3_endpoint, check=lambda request: gates.s3_error(403, code)) as gate:
        result = troubled.doctor({ENDPOINT: gate.uri, KEY: None, SECRET: None}, "--table", troubled.table)
    assert result.exit_code == 1
    assert words in result.stderr


def test_a_bucket_that_is_gone_is_named(troubled: Lake) -> None:
    def without_bucket(request: gates.Request) -> gates.Request | gates.Answer:
        return gates.s3_error(404, "NoSuchBucket")

    with gates.gate(troubled.server.s3_endpoint, check=without_bucket) as gate:
        result = troubled.doctor({ENDPOINT: gate.uri}, "--table", troubled.table)
        assert result.exit_code == 1
        assert result.stderr == (
            f'error: There is no bucket "{troubled.bucket}" at {gate.uri}; check the location of the table, and '
            "s3.endpoint.\n"
        )


def test_a_certificate_that_nobody_trusts_is_named(troubled: Lake, tmp_path: Path) -> None:
    with certificates.self_signed_server(tmp_path) as uri:
        result = troubled.doctor({ENDPOINT: uri}, "--table", troubled.table)
        assert result.exit_code == 1
        assert result.stderr == (
            f"error: The TLS certificate of the store of s3://{troubled.bucket} at {uri} is not trusted (it is "
            "self-signed); put the certificate of its authority into a file and name the file in SSL_CERT_FILE.\n"
        )


def test_doctor_calls_the_table_unreachable_and_not_broken(troubled: Lake) -> None:
    result = troubled.doctor({SECRET: WRONG}, "--table", f"{troubled.table}*", "--output", "json")
    assert result.exit_code == 1
    (row,) = json.loads(result.stdout)
    assert (row["table"], row["state"]) == (troubled.table, "unreachable")
    assert row["error"].startswith("The secret key for ")
    shown = troubled.doctor({SECRET: WRONG}, "--table", f"{troubled.table}*").stdout
    assert "unreachable" in shown
    assert "broken" not in shown

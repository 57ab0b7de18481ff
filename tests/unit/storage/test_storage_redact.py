"""No secret survives redaction; ordinary text does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.factories.examples import examples

from iceberg_compaction.storage import redact


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:hunter2@db:5432/lake",
        "postgresql+psycopg2://hunter2@db/lake",
        "Authorization: Bearer hunter2",
        "GET https://s3/key?X-Amz-Signature=hunter2&x=1",
        "password=hunter2 host=db",
        "{'s3.secret-access-key': 'hunter2', 'a': 'b'}",
        '{"client_secret": "hunter2"}',
        "token: hunter2",
        "GET https://lake.blob.core.windows.net/c/x?sv=2021&sr=b&sig=hunter2%3D failed",
        "AccountName=lake;AccountKey=hunter2==",
        "SharedKey lake:hunter2=",
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str) -> None:
    assert "hunter2" not in redact.redact_text(text)


def test_access_key_ids_are_hidden() -> None:
    assert "AKIAIOSFODNN7EXAMPLE" not in redact.redact_text("key AKIAIOSFODNN7EXAMPLE is unknown")


@pytest.mark.parametrize(
    "text",
    [
        "Connection refused: http://127.0.0.1:8181/v1/config",
        "s3://bucket/db/table/metadata/00001-abc.metadata.json not found",
        'relation "iceberg_tables" does not exist',
        "NotAuthorizedException: Bearer token is invalid or expired",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert redact.redact_text(text) == text


def test_properties_are_shown_without_secrets() -> None:
    shown = redact.redact_properties(
        {
            "uri": "postgresql://me:hunter2@db/lake",
            "credential": "id:hunter2",
            "token": "hunter2",
            "s3.access-key-id": "hunter2",
            "s3.secret-access-key": "hunter2",
            "adls.account-key": "hunter2",
            "adls.sas-token": "hunter2",
            "gcs.oauth2.token": "hunter2",
            "header.Authorization": "hunter2",
            "warehouse": "s3://w",
            "s3.region": "eu-west-1",
        }
    )
    assert "hunter2" not in str(shown)
    assert (shown["warehouse"], shown["s3.region"]) == ("s3://w", "eu-west-1")


@examples(200)
@given(
    secret=st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=4, max_size=40).filter(
        lambda text: text not in "secret-access-key=***"
    ),
    before=st.text(max_size=20),
    after=st.text(max_size=20),
)
def test_known_secrets_never_survive(secret: str, before: str, after: str) -> None:
    secrets = redact.secrets_of({"s3.secret-access-key": secret, "auth": {"basic": {"password": secret}}})
    assert secret not in redact.redact_text(f"{before}{secret}{after}", secrets).replace(redact.HIDDEN, " ")


def test_a_uris_password_is_known_in_both_spellings() -> None:
    assert redact.secrets_of({"uri": "postgresql://u:p%40ssword@h/d"}) >= {"p%40ssword", "p@ssword"}
    assert redact.secrets_of({"uri": "http://[bad"}) == frozenset()

"""The choice of a run store: files, URLs and variables; network file systems; missing packages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from iceberg_compaction import errors, settings
from iceberg_compaction.interfaces import run_stores, wiring
from iceberg_compaction.model.retention_periods import DAY_MS, RetentionPeriods
from iceberg_compaction.record.entries import network_files
from iceberg_compaction.record.entries.server_url import ServerUrl

MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/export /home nfs4 rw 0 0
/dev/sdb1 /home/local ext4 rw 0 0
//pc/share /mnt/with\\040space cifs rw 0 0
bucket /lake fuse.s3fs rw 0 0
over /var/lib/over fuse.fuse-overlayfs rw 0 0
tmpfs /lake/tmp tmpfs rw 0 0
"""


@pytest.mark.parametrize(
    ("given", "file"),
    [
        ("runs.db", "runs.db"),
        ("/a/b c/runs.db", "/a/b c/runs.db"),
        (Path("/a/runs.db"), "/a/runs.db"),
        ("sqlite:runs.db", "runs.db"),
        ("sqlite:/a/runs.db", "/a/runs.db"),
        ("sqlite:///runs.db", "runs.db"),
        ("sqlite:////a/runs.db", "/a/runs.db"),
        ("memory://", None),
        ("redis://h", None),
    ],
)
def test_files_are_told_from_urls(given: str | Path, file: str | None) -> None:
    assert run_stores.file_of(given) == (None if file is None else Path(file))


def test_flags_come_before_variables_and_variables_before_the_default_file() -> None:
    environ = {"HOME": "/h"}
    assert settings.load_store(environ) == "/h/.local/state/iceberg-compaction/runs.db"
    environ["REDIS_URL"] = "redis://r"
    assert settings.load_store(environ) == "redis://r"
    environ["ICEBERG_COMPACTION_STATE"] = "/s/runs.db"
    assert settings.load_store(environ) == "/s/runs.db"
    environ["STORE_URL"] = "memory://"
    assert settings.load_store(environ) == "memory://"
    assert str(wiring.store_to_read("redis://other", environ)) == "redis://other"
    assert str(wiring.store_to_write(None, environ)) == "memory://"
    assert wiring.store_to_read(None, {}) is None


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("mysql://u:pw1@h/d", r"'mysql://u:\*\*\*@h/d' is not a run store; choose a file, memory://, postgresql://"),
        ("redis://", r"The run store 'redis://' has no host; write redis://HOST\."),
        ("postgresql:///db", r"The run store 'postgresql:///db' has no host; write postgresql://HOST\."),
        ("redis+sentinel://:pw1@h", r"'redis\+sentinel://:\*\*\*@h' is not a run store; choose a file"),
        ("redis::pw1@h", r"'redis:h' is not a run store; write redis://\.$"),
        ("memory:", r"'memory:' is not a run store; write memory://\.$"),
        ("sqlite:", r"The run store 'sqlite:' names no file; write sqlite:///FILE\.$"),
        ("sqlite://", r"The run store 'sqlite://' names no file"),
        ("sqlite:////", r"The run store 'sqlite:////' names no file"),
        ("redis://:pw1@h:port", r"'redis://h:port' is not the URL of a run store: Port could not be cast"),
        ("etcd://h?prefix=A-B", r"The prefix 'A-B' of the run store etcd://h\?prefix=A-B is not a name"),
        ("redis://:pw1@h/0?socket_timeout=soon", r"The run store redis://:\*\*\*@h/0\?socket_timeout=soon cannot be"),
        (
            "redis://:pw1@h/team",
            r"The run store redis://:\*\*\*@h/team names the database 'team', but databases of Redis",
        ),
    ],
)
def test_a_wrong_url_is_one_sentence_without_its_password(url: str, sentence: str) -> None:
    with pytest.raises(errors.CompactionError, match=sentence) as caught:
        run_stores.open_store(url, {})
    assert "pw1" not in str(caught.value)


def test_a_postgresql_that_listens_in_a_folder_needs_no_host() -> None:
    url = "postgresql://u:pw1@/db?host=/run/postgresql"
    assert str(run_stores.open_store(url, {})) == "postgresql://u:***@/db?host=/run/postgresql"
    assert ServerUrl(url).client_url == url


def test_a_folder_is_no_store_and_the_sentence_names_a_file_in_it(tmp_path: Path) -> None:
    with pytest.raises(
        errors.ConfigError, match=rf"{tmp_path} is a folder; name a file in it, such as {tmp_path}/runs.db"
    ):
        run_stores.open_store(str(tmp_path), {})


def test_secrets_are_hidden_in_names_and_reasons() -> None:
    url = ServerUrl("postgresql://u:p%40ss@h:5/db?sslmode=require&password=s3c&prefix=x")
    assert str(url) == "postgresql://u:***@h:5/db?sslmode=require&password=***&prefix=x"
    assert url.reason(ValueError("bad p@ss or\n p%40ss or s3c.")) == "bad *** or *** or ***"
    assert url.client_url == "postgresql://u:p%40ss@h:5/db?sslmode=require&password=s3c"


@pytest.mark.parametrize(("scheme", "package", "extra"), [("redis", "redis", "redis"), ("etcd", "etcd3gw", "etcd")])
def test_a_missing_package_is_one_sentence(
    scheme: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"iceberg_compaction.record.entries.{scheme}", raising=False)
    with pytest.raises(errors.SetupError, match=rf"needs {package}, .* pip install 'iceberg-compaction\[{extra}\]'\.$"):
        run_stores.open_store(f"{scheme}://h", {})


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("/var/runs.db", None),
        ("/home/u/runs.db", "nfs4"),
        ("/home/local/runs.db", None),
        ("/homes/runs.db", None),
        ("/mnt/with space/x/runs.db", "cifs"),
        ("/lake/runs.db", "fuse.s3fs"),
        ("/lake/tmp/runs.db", None),
        ("/var/lib/over/runs.db", None),
    ],
)
def test_files_on_a_network_are_known_by_their_mounts(file: str, kind: str | None) -> None:
    assert network_files.network_kind(Path(file), MOUNTS) == kind


def test_a_file_on_a_network_is_refused_with_the_alternatives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sentence = rf"{tmp_path}/runs.db would lie on a network file system \(nfs4\), .* postgresql://…, redis://… or etcd"
    monkeypatch.setattr(network_files, "_MOUNTS", tmp_path / "mounts")
    (tmp_path / "mounts").write_text(f"server:/x {tmp_path} nfs4 rw 0 0\n")
    for use in (wiring.store_to_read, wiring.store_to_write, wiring.run_store):
        with pytest.raises(errors.ConfigError, match=sentence):
            use(str(tmp_path / "runs.db"))
    assert not (tmp_path / "runs.db").exists()


def test_retention_is_set_by_variables() -> None:
    assert settings.load_retention({}) == RetentionPeriods()
    periods = settings.load_retention(
        {"ICEBERG_COMPACTION_KEEP_EVENTS": "12h", "ICEBERG_COMPACTION_KEEP_HISTORY": "2d"}
    )
    assert periods == RetentionPeriods(events_ms=DAY_MS // 2, history_ms=2 * DAY_MS)
    with pytest.raises(errors.ConfigError, match="ICEBERG_COMPACTION_KEEP_HEALTH: 'long' is not a duration"):
        settings.load_retention({"ICEBERG_COMPACTION_KEEP_HEALTH": "long"})

"""What is checked and prepared before Spark starts: Java, environment, the package for executors."""

from __future__ import annotations

import os
import threading
import time
import zipfile
from importlib import machinery
from typing import TYPE_CHECKING

import pyspark
import pytest

import iceberg_compaction
from iceberg_compaction import errors
from iceberg_compaction.execute.engines.spark import (
    daemon,
    early_start,
    java,
    jvm,
    shipping,
    sockets,
    spark_session,
    submission,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def _java(home: Path, script: str) -> dict[str, str]:
    program = home / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"JAVA_HOME": str(home)}


def test_no_java_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        errors.ConfigError, match=r"JAVA_HOME is not set and there is no java command; install a JDK 17"
    ):
        java.check_java({"PATH": str(tmp_path)})


def test_a_wrong_java_home_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.ConfigError, match=rf"JAVA_HOME \({tmp_path}\) has no bin/java"):
        java.check_java({"JAVA_HOME": str(tmp_path)})


@pytest.mark.parametrize(("version", "major"), [("1.8.0_392", "8"), ("11.0.2", "11"), ("25", "25")])
def test_java_of_another_age_is_refused(version: str, major: str, tmp_path: Path) -> None:
    with pytest.raises(errors.ConfigError, match=f"Spark needs Java 17 or 21, but .* is Java {major};"):
        java.check_java(_java(tmp_path, f"echo 'openjdk version \"{version}\"' >&2"))


@pytest.mark.parametrize("version", ["17.0.15", "21"])
def test_java_17_and_21_are_fine(version: str, tmp_path: Path) -> None:
    java.check_java(_java(tmp_path, f"echo 'openjdk version \"{version}\"' >&2"))


def test_java_that_does_not_run_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(errors.ConfigError, match="does not run"):
        java.check_java(_java(tmp_path, "exit 1"))


@pytest.mark.parametrize("master", ["local[2]", "yarn"])
def test_the_error_of_an_early_start_is_raised_where_the_session_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str
) -> None:
    for name in ("_gateway", "_active_spark_context"):  # of tests before this one
        monkeypatch.setattr(pyspark.SparkContext, name, None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with early_start.EarlyStart({"spark.master": master}) as early:
        for _ in range(2):
            with pytest.raises(errors.ConfigError, match="has no bin/java"):
                early.opened()
    with early_start.EarlyStart({"spark.master": master}):
        pass  # nobody needs it, so nobody hears of it


def test_only_a_session_in_this_process_starts_early_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert spark_session.is_embedded({})
    assert not any(
        spark_session.is_embedded({key: value}) for key, value in (("spark.master", "yarn"), ("spark.remote", "sc://h"))
    )
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert not spark_session.is_embedded({})


def test_a_cluster_is_not_taken_for_spark_submit_while_its_jvm_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    started = threading.Event()

    def launch(conf: Mapping[str, str], java_process: jvm.Jvm) -> None:
        with jvm.environment({"PYSPARK_GATEWAY_PORT": "1"}):
            started.set()
            time.sleep(0.2)

    def open_session(conf: Mapping[str, str], java_process: jvm.Jvm) -> bool:
        return "PYSPARK_GATEWAY_PORT" in os.environ

    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr(spark_session, "launch", launch)
    monkeypatch.setattr(spark_session, "open_session", open_session)
    early = early_start.EarlyStart({"spark.master": "yarn"}).__enter__()
    assert started.wait(10)
    assert early.opened() is False


def test_a_session_that_nobody_needs_is_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()

    def open_session(conf: Mapping[str, str], java_process: jvm.Jvm) -> None:
        begun.set()
        assert ended.wait(60)
        raise ConnectionError("the JVM is gone")

    def end(java_process: jvm.Jvm) -> bool:
        ended.set()
        return False

    monkeypatch.setattr(spark_session, "needs_daemon", lambda conf: False)
    monkeypatch.setattr(spark_session, "open_session", open_session)
    monkeypatch.setattr(jvm.Jvm, "end", end)
    with early_start.EarlyStart({"spark.master": "local[2]"}):
        assert begun.wait(60)
    assert ended.is_set()


def test_variables_that_the_conf_gives_workers_are_there_when_they_import() -> None:
    assert not spark_session.needs_daemon({"spark.executorEnv.LD_PRELOAD": "libjemalloc.so"})


def test_sockets_need_short_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "_conf", {})
    monkeypatch.chdir(tmp_path)
    assert sockets.conf(fresh=False) == {}  # a JVM that others have started
    for length, works in ((8, True), (100, False)):
        folder = tmp_path / ("x" * length)
        folder.mkdir()
        monkeypatch.setattr("tempfile.tempdir", folder.name)
        conf = sockets.conf(fresh=True)
        assert bool(conf) is works
        assert sockets.conf(fresh=False) == conf
        assert len(list(folder.iterdir())) == works


def test_environment_is_as_before_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_A", "old")
    monkeypatch.delenv("SPARK_B", raising=False)
    with jvm.environment({"SPARK_A": "new", "SPARK_B": "new"}):
        assert (os.environ["SPARK_A"], os.environ["SPARK_B"]) == ("new", "new")
    assert os.environ["SPARK_A"] == "old"
    assert "SPARK_B" not in os.environ


def test_only_masters_inside_this_process_are_local() -> None:
    assert all(spark_session.is_local(master) for master in ("local", "local[*]", "local[2,4]"))
    assert not any(
        spark_session.is_local(master) for master in ("local-cluster[1,1,1024]", "spark://h:7077", "yarn", "")
    )


def test_workers_find_the_package_and_no_part_of_it_in_place_of_a_module_of_python() -> None:
    """The package has rooms called `inspect` and `operations`: their folder must not be one to import from."""
    *_, folder = spark_session._environment(local=True)["PYTHONPATH"].split(os.pathsep)
    spec = machinery.PathFinder.find_spec("iceberg_compaction", [folder])
    assert spec is not None
    assert spec.origin == iceberg_compaction.__file__
    assert machinery.PathFinder.find_spec("inspect", [folder]) is None


def test_the_package_travels_whole_and_equal_code_makes_equal_bytes() -> None:
    first = shipping.package_zip()
    content = first.read_bytes()
    shipping.package_zip.cache_clear()
    second = shipping.package_zip()
    assert (first.name, content) == (second.name, second.read_bytes())
    with zipfile.ZipFile(second) as archive:
        names = set(archive.namelist())
    assert {"iceberg_compaction/__init__.py", "iceberg_compaction/execute/worker/execute_task.py"} <= names


@pytest.mark.parametrize(
    ("told", "gist"),
    [
        (
            "Traceback (most recent call last):\n  File x\nValueError: bad\n\nJVM stacktrace:\njava.X: no",
            "ValueError: bad",
        ),
        (
            "An error occurred while calling z:collectAndServe.\n: org.apache.spark.SparkException: Job aborted: Lost "
            "task: org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n  File x\n"
            "ValueError: bad\n\n\tat a.b(c)\nDriver stacktrace:\njava.X: no",
            "ValueError: bad",
        ),
        (
            "An error occurred while calling o1.collect.\n: org.apache.spark.SparkException: Job aborted: Lost task: "
            "java.io.IOException: disk full\n\tat a.b(c)\nCaused by: d",
            "disk full",
        ),
        ("[CONNECT] gone", "[CONNECT] gone"),
        ("", "no message."),
    ],
)
def test_the_gist_of_a_spark_error(told: str, gist: str) -> None:
    assert submission.gist(told) == gist


def test_workers_import_from_folders_where_these_have_all(tmp_path: Path) -> None:
    archive, folder = tmp_path / "pyspark.zip", tmp_path / "site-packages"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("pyspark/__init__.py", "")
    places = [str(archive), str(folder), str(tmp_path / "not-there")]
    (folder / "pyspark").mkdir(parents=True)
    (folder / "pyspark" / "__init__.py").touch()
    assert daemon.without_archives(places) == places  # py4j may be in the archive only
    (folder / "py4j").mkdir()
    (folder / "py4j" / "__init__.py").touch()
    assert daemon.without_archives(places) == places[1:]

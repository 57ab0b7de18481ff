"""The look at the Python of executors: facts that need nothing but Python, and one sentence for each kind of lack."""

from __future__ import annotations

import marshal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from iceberg_compaction import errors
from iceberg_compaction.execute.engines.spark.executors import facts, probe

if TYPE_CHECKING:
    from pyspark import SparkContext


class Context:
    """As much of a context as sentences need."""

    master = "spark://h:7077"


def executor(**changes: Any) -> facts.ExecutorFacts:
    versions = {"pyarrow": "26.0.1", "pyiceberg": "0.12.0", "pydantic": "2.14.3"}
    given = {"python": "3.11.2", "executable": "/usr/bin/python3", "host": "worker-1", "packages": versions}
    return facts.ExecutorFacts(**{**given, **changes})


def sentence(error: Exception, context: Any = Context) -> str:
    return str(probe._translate(error, context))


def test_this_python_has_all_that_a_task_needs() -> None:
    collected = facts.parse(facts.collector()())
    assert (collected.missing, collected.error) == ([], None)
    assert not collected.unfit(facts.requirements())
    assert collected.executable == sys.executable


def test_the_function_that_collects_needs_no_package() -> None:
    """Its code alone, in a Python without packages."""
    code = marshal.dumps(facts.collector().__code__)
    script = f"import marshal, types\ncell = types.CellType({facts.PACKAGES!r})\n"
    script += f"print(types.FunctionType(marshal.loads({code!r}), {{}}, 'collect', None, (cell,))())"
    bare = subprocess.run([sys.executable, "-S", "-c", script], env={}, capture_output=True, text=True, check=True)
    assert facts.parse(bare.stdout).missing == list(facts.PACKAGES)


@pytest.mark.parametrize(
    ("changes", "lack"),
    [
        ({"packages": {"pyarrow": None, "pyiceberg": None, "numpy": "2.0"}}, "which lacks pyarrow and pyiceberg; "),
        ({"packages": {"pyarrow": "17.0.0"}}, "which has pyarrow 17.0.0 where pyarrow>=25,<27 is needed; "),
        ({"error": "ImportError: libz"}, "which cannot import the code of a task (ImportError: libz); "),
    ],
)
def test_a_python_that_is_not_fit_is_one_sentence(
    changes: dict[str, Any], lack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    context: SparkContext = Context  # type: ignore[assignment]
    monkeypatch.setattr(facts, "requirements", lambda: ["pyarrow>=25,<27", "pandas>=2; extra == 'connect'"])
    with pytest.raises(errors.ConfigError) as raised:
        probe._judge(executor(**changes), context)
    start = "Executors of spark://h:7077 run Python 3.11.2 (/usr/bin/python3 on worker-1), "
    assert str(raised.value).startswith(start + lack)
    assert "--conf spark.pyspark.python=PATH" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, PySpark "
            "cannot run with different minor versions.",
            "Executors of spark://h:7077 run Python 3.9, and this process runs Python 3.11, where ",
        ),
        (
            'java.io.IOException: Cannot run program "./env/bin/python": error=2, No such file',
            "Executors of spark://h:7077 have no ./env/bin/python; ",
        ),
        (
            "/usr/bin/python3: Error while finding module specification for 'pyspark.daemon' (ModuleNotFoundError: No "
            "module named 'pyspark')",
            "Executors of spark://h:7077 run a Python that lacks pyspark; ",
        ),
        (
            "Traceback (most recent call last):\n  File x\nValueError: bad",
            "Executors of spark://h:7077 perform no task: ",
        ),
    ],
)
def test_an_executor_that_cannot_even_look_is_one_sentence(text: str, told: str) -> None:
    assert sentence(RuntimeError(text)).startswith(told)


@pytest.mark.parametrize(
    ("version", "requirement", "fits"),
    [
        ("26.0.1", "pyarrow>=25,<27", True),
        ("27.0.0", "pyarrow>=25,<27", False),
        ("2.10.0rc1", "pydantic>=2.10,<3", True),
        ("2.9", "pydantic>=2.10,<3", False),
        ("0.12.0", "pyiceberg[sql-sqlite]>=0.12,<0.13", True),
        ("odd", "numpy", True),
    ],
)
def test_versions_compare_by_their_numbers(version: str, requirement: str, fits: bool) -> None:
    assert facts._fits(version, requirement) is fits

"""What is wrong with the settings of a service, part by part, before it serves: the store, the policy, each catalog and
its engine, who may ask. Everything is tried, nothing is changed but a sign of life."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.interfaces.service.access import guard
from iceberg_compaction.interfaces.service.service_settings import ServiceRole
from iceberg_compaction.model.checked_part import CheckedPart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from iceberg_compaction.interfaces.service.service_house import ServiceHouse

_EMBEDDED = ("spark", "auto")


def check(house: ServiceHouse) -> Iterator[CheckedPart]:
    """Each part with a sentence, as they are found."""
    yield _tried("store", lambda: _store(house))
    yield _tried("policy", lambda: _policy(house))
    yield _tried("access", lambda: guard.host_of(house)[1])
    for name in house.settings.catalogs:
        yield _tried(f"catalog {name}", lambda name=name: _catalog(house, name))  # type: ignore[misc]
        if house.settings.role is not ServiceRole.API:
            yield _tried(f"engine of {name}", lambda name=name: _engine(house, name))  # type: ignore[misc]


def _tried(part: str, look: Callable[[], str]) -> CheckedPart:
    try:
        return CheckedPart(part=part, ok=True, sentence=look())
    except errors.CompactionError as error:
        return CheckedPart(part=part, ok=False, sentence=str(error))


def _store(house: ServiceHouse) -> str:
    house.store.entries.scan("service-check/", limit=1)
    return f"{house.store} answers."


def _policy(house: ServiceHouse) -> str:
    from iceberg_compaction.policy import review, spelling

    if (file := house.settings.policy_file) is not None:
        # Single tables and namespaces, too: a wrong time zone of one table would be found when that is due.
        reviewed = review.check(file, spelling.PolicySpellings())
        if not reviewed.ok:
            raise errors.ConfigError(" ".join(reviewed.problems[:10]))
    followed = house.policies.followed()
    followed.effective("namespace.table", {})
    count = len(house.policies.documents())
    where = house.settings.policy_file or "There is no policy file, so that tables' own properties and defaults hold"
    stored = f", and {count} stored over REST" if count else ""
    return f"{where}{stored}."


def _catalog(house: ServiceHouse, name: str) -> str:
    from iceberg_compaction.catalog import load_tables

    catalog = house.catalogs.catalog(name)
    entry = house.catalogs.entry(name)
    tables = {table for pattern in entry.tables for table in load_tables.list_tables(catalog, pattern)}
    return f"It answers; {len(tables)} of its tables are looked after."


def _engine(house: ServiceHouse, name: str) -> str:
    entry = house.catalogs.entry(name)
    if entry.engine == "spark":
        wiring.check_engine("spark")
        return "Spark is installed."
    if entry.engine not in (*_EMBEDDED, "inline"):
        wiring.engine_factory(entry.engine)
    return f"The engine {entry.engine} is there."

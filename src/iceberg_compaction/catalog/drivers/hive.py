"""PyIceberg's Hive catalog, made safer. A commit names the table metadata that it replaces, so that the metastore
refuses it if that is no longer the table's (HIVE-26882): a lock alone keeps out only those who ask for it, and it
expires. And every call has a time limit. Metastores that do not know the check ignore it."""

from __future__ import annotations

from typing import Any

from pyiceberg.catalog import hive as pyiceberg_hive
from pyiceberg.exceptions import CommitFailedException

_TIMEOUT_MS = 120_000  # as for REST catalogs
_CHANGED = "The table has been modified"


class CheckedHiveCatalog(pyiceberg_hive.HiveCatalog):
    """A Hive catalog whose commits are compare-and-set."""

    @staticmethod
    def _create_hive_client(properties: dict[str, str]) -> Any:
        client = pyiceberg_hive.HiveCatalog._create_hive_client(properties)
        client.__class__ = _CheckedClient  # the constructor takes what only PyIceberg knows how to read
        client._transport = client._init_thrift_transport()
        return client


class _CheckedClient(pyiceberg_hive._HiveClient):
    """Opens connections with a time limit, whose updates of tables are checked."""

    def _init_thrift_transport(self) -> Any:
        transport = super()._init_thrift_transport()
        for name in ("_TBufferedTransport__trans", "transport"):  # plain, and with Kerberos
            inner: Any = getattr(transport, name, None)
            if hasattr(inner, "setTimeout"):
                inner.setTimeout(_TIMEOUT_MS)
        return transport

    def _client(self) -> Any:
        client: Any = super()._client()
        vars(client)["alter_table_with_environment_context"] = _CheckedUpdate(client)
        return client


class _CheckedUpdate:
    def __init__(self, client: Any) -> None:
        self._update = type(client).alter_table_with_environment_context.__get__(client)

    def __call__(self, dbname: str, tbl_name: str, new_tbl: Any, environment_context: Any) -> None:
        replaced = new_tbl.parameters.get(pyiceberg_hive.PROP_PREVIOUS_METADATA_LOCATION)
        if replaced:
            environment_context.properties |= {
                "expected_parameter_key": pyiceberg_hive.PROP_METADATA_LOCATION,
                "expected_parameter_value": replaced,
            }
        try:
            self._update(dbname, tbl_name, new_tbl, environment_context)
        except Exception as error:
            if _CHANGED in str(getattr(error, "message", "")):
                raise CommitFailedException(
                    f"The metastore has other metadata of {dbname}.{tbl_name} by now"
                ) from error
            raise

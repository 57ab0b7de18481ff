"""Compacts a table of a REST catalog on S3 with the command line: doctor, plan, run, verify."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import server
from pyiceberg.catalog.rest import RestCatalog

TABLE = "shop.orders"


def make_table(environment: dict[str, str], store: str) -> None:
    """Ten appends of a few rows, as any writer may make them; here it is PyIceberg."""
    catalog = RestCatalog(
        "rest",
        uri=environment["CATALOG_URI"],
        warehouse=environment["CATALOG_WAREHOUSE"],
        credential=environment["CATALOG_CREDENTIAL"],
        **{
            "oauth2-server-uri": f"{environment['CATALOG_URI']}/v1/oauth/tokens",
            "s3.endpoint": store,
            "s3.access-key-id": environment["AWS_ACCESS_KEY_ID"],
            "s3.secret-access-key": environment["AWS_SECRET_ACCESS_KEY"],
            "s3.region": environment["AWS_REGION"],
        },
    )
    catalog.create_namespace("shop")
    schema = pa.schema([("id", pa.int64()), ("amount", pa.float64())])
    table = catalog.create_table(TABLE, schema)
    for first in range(0, 1000, 100):
        table.append(pa.table({"id": range(first, first + 100), "amount": [1.5] * 100}, schema=schema))
    catalog.close()


def command(environment: dict[str, str], *words: str) -> None:
    """Run the program as a shell would."""
    print(f"\n$ iceberg-compact {shlex.join(words)}", flush=True)
    subprocess.run([sys.executable, "-m", "iceberg_compaction", *words], env=environment, check=True)


def main(engine: str, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="seaweedfs-") as data, server.running(Path(data)) as (catalog, store):
        print(f"A REST catalog listens at {catalog}, and S3 at {store}.", flush=True)
        environment = os.environ | {
            "CATALOG_URI": catalog,
            "CATALOG_WAREHOUSE": f"s3://{server.BUCKET}",
            "CATALOG_CREDENTIAL": f"{server.ACCESS_KEY}:{server.SECRET_KEY}",
            "AWS_ACCESS_KEY_ID": server.ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": server.SECRET_KEY,
            "AWS_REGION": "us-east-1",
            "STORE_URL": str(folder / "runs.db"),
        }
        make_table(environment, store)
        s3 = ("--catalog-property", f"s3.endpoint={store}")  # only for a store that is not Amazon's
        command(environment, "doctor", "--table", TABLE, *s3)
        command(environment, "plan", "--table", TABLE, *s3)
        command(environment, "run", "--table", TABLE, "--engine", engine, *s3)
        command(environment, "verify", "latest", "--engine", engine, *s3)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="spark", choices=("spark", "inline"), help="inline needs no Java")
    parser.add_argument("--folder", default="work", type=Path, help="where the run store is; it is replaced")
    given = parser.parse_args()
    main(given.engine, given.folder.absolute())

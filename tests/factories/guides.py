"""Examples of guides that people follow, word for word: they name tables without a namespace."""

from __future__ import annotations

import re

# Arguments of a Kubernetes CronJob; the cluster replaces $(CATALOG_URI).
CRON_JOB = """
apiVersion: batch/v1
kind: CronJob
metadata:
  name: hourly-compaction
spec:
  schedule: "0 * * * *"
  jobTemplate:
    spec:
      template:
        spec:
          containers:
          - name: compactor
            image: iceberg-compaction:latest
            command: ["iceberg-compact"]
            args:
              - "--catalog-uri=$(CATALOG_URI)"
              - "--table=events"
              - "--strategy=small-files"
            env:
              - name: CATALOG_URI
                valueFrom:
                  secretKeyRef:
                    name: catalog-secret
                    key: uri
            resources:
              limits:
                memory: "4Gi"
                cpu: "2"
              requests:
                memory: "2Gi"
                cpu: "1"
          restartPolicy: OnFailure
"""

# A policy for tables of one database.
POLICY = """
apiVersion: compaction.io/v1
kind: CompactionPolicy
metadata:
  name: hourly-compaction
spec:
  catalog:
    type: glue
    database: production
  schedule: "0 * * * *"
  tables:
    - name: events
      strategy: time-series
      targetFileSize: 512Mi
    - name: dimensions
      strategy: small-files
      targetFileSize: 1Gi
  resources:
    memory: 4Gi
    cpu: 2
  costLimit:
    hourly: 10.00
"""


def policy_tables() -> list[dict[str, str]]:
    """The namespace, the name and the options of each table of the policy."""
    (database,) = re.findall(r"database: (\w+)", POLICY)
    rows = re.findall(r"- name: (\S+)\n +strategy: (\S+)\n +targetFileSize: (\S+)", POLICY)
    return [{"namespace": database, "table": name, "strategy": kind, "size": size} for name, kind, size in rows]


def cron_job_arguments(catalog_uri: str) -> list[str]:
    """The arguments that the container gets."""
    return [text.replace("$(CATALOG_URI)", catalog_uri) for text in re.findall(r'- "(--.*)"', CRON_JOB)]

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


def cron_job_arguments(catalog_uri: str) -> list[str]:
    """The arguments that the container gets."""
    return [text.replace("$(CATALOG_URI)", catalog_uri) for text in re.findall(r'- "(--.*)"', CRON_JOB)]

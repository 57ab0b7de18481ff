"""Parsed manifests on local disk. Arrow tables come in under a name, and come out again in a later run, or not at all:
nothing may depend on an entry. Knows Arrow and the local file system, and neither Iceberg nor storage."""

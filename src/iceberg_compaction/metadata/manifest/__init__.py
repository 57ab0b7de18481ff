"""Manifests from bytes to columns, and back. The entries of a manifest list come in; live files as Arrow columns,
column metrics, and new manifests go out (R10-R12). Knows Avro, PyIceberg's manifest types and the cache; decides
nothing about a commit."""

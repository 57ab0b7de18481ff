"""Partitions over all specs of a table: their common type, and what each of them holds."""

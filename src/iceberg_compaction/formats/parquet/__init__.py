"""Parquet files below the level of rows. In: a FileIO with paths, or tables to encode. Out: footers as values, page
indexes, Bloom filters, and files put together from row groups of others. Knows no table, no partition and no task."""

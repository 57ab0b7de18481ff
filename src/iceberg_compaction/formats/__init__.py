"""Formats of files and of memory, as bytes. In: bytes, a FileIO with paths, Arrow arrays. Out: values, Arrow tables,
bytes, digests. Knows the specifications of Avro, Parquet and Arrow; knows neither Iceberg's tables nor tasks."""

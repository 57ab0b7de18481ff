"""Batches become data files: the sink.

In: arranged batches, the table's properties and a summary of the inputs. Out: staged files with their metrics.
It may know: Parquet writers, locations and sizes; of the inputs only their summary and copied row groups."""

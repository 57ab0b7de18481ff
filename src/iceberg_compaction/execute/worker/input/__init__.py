"""Data files become batches in the table's columns.

In: paths, partition values and budgets. Out: footers, and Arrow batches by field id.
It may know: Parquet and table schemas; neither deletes nor outputs."""

"""Rows go to their partition and into their order, between source and sink.

In: batches in the columns of the output files. Out: the same rows in batches of one partition each.
It may know: partition specs, sort orders and local disk; neither inputs nor files of the table."""

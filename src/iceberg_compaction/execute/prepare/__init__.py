"""Prepares a job. In: a plan and a view of its table. Out: tasks, and the context that all of them share. It may know
the metadata of the table, and opens no data file."""

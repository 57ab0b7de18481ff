"""Runs of the past, as the table itself has them. In: a run id and a table. Out: the commits of the run, their files,
and the rows of files as they are read now. It may know metadata and engines, and no store."""

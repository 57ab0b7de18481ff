"""The check of a past run. In: a run id and a table. Out: a Verification. Files are read, and nothing is written."""

"""Rows past their time leave a table, by the files that hold nothing else."""

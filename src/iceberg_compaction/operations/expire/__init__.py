"""The operation `expire`: old snapshots leave a table, and then the files that only they needed. A table and a goal
come in; the outcome says what went, what stayed, and what can still be undone."""

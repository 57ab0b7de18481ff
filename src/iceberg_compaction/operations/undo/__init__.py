"""The operation `undo`: the files of a run leave the table, and those that it had replaced come back. In: a run id and
a table. Out: a changed branch, or the reason why it must not change."""

"""Delete files: useless ones are dropped, position deletes merged, equality deletes turned into position deletes.

In: a table, and which of the three to do. Out: one `replace` snapshot in which every row lives or is deleted as before.
It may know: the layers below, and of `rewrite_files` the parts of a commit that are the same."""

"""Delete files become a filter for rows.

In: a task's delete files and the footers of its inputs. Out: the rows of each batch that live, and their number.
It may know: `input`, to read keys of data files; no output."""

"""A task that writes position deletes instead of rows.

In: a task's delete files, and the keys of its inputs. Out: staged position deletes of the same rows, with a proof.
It may know: `input` and `deletes`, to find rows; of `output` only where files lie."""

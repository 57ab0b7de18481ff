"""The memory of runs. In: records and entries of the journal, from `operations` and `workflow`. Out: the history, and
the runs that did not finish. `store` has the rules, `entries` the places that a store may be in. It may know the
vocabulary, servers that keep entries and the operating system, and nothing of tables."""

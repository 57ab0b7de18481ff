"""The memory of runs. In: records and entries of the journal, from `operations` and `workflow`. Out: the history, and
the runs that did not finish. `store` is the contract, `sql_store` its implementation. It may know the vocabulary,
SQLAlchemy and the operating system, and nothing of tables."""

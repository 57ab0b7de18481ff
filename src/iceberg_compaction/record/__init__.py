"""The memory of runs. Records and entries of the journal come in, from `operations` and `workflow`; lists of them go
out. `store` is the contract, `sql_store` its implementation; `processes` tells whether the process of an entry lives.
Knows the vocabulary, SQLAlchemy and the operating system, and nothing of tables."""

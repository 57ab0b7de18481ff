"""One folder or module per operation on a table. In: a policy, a plan or new values, with the table and the run. Out: a
plan, commits, and the outcome from the run's ledger. It may know every room but `workflow` and `interfaces`."""

"""Goes on with the plan of a dead run. In: its checkpoint and the table. Out: commits of the groups that still hold. It
may know all that performs a plan."""

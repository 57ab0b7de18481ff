"""The main line. In: an operation on one table, and the parts that exist before a run. Out: its outcome, after recovery
of dead runs, plan, claims, work and record; or the health of one table or many. It may know every room but
`interfaces`."""

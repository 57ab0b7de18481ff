"""DECIDE. The view of a table and a policy come in; a plan goes out, with a reason for every group and for every file
that is left alone. Pure: no I/O, no clock, no randomness. Knows the vocabulary (`model`, `errors`) and nothing else."""

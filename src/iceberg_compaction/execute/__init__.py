"""Performs plans. In: a plan and the table it was made on. Out: staged files with proofs, by tasks that any engine can
run. `engine_door` is the one way in. It may know the vocabulary, storage and formats, and nothing of commits."""

"""Executors and this process. In: a context or a session. Out: what executors have and lack, and how they reach this
process."""

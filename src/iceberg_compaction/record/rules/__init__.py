"""The rules of the run store above its entries: history, journal, retention, queue."""

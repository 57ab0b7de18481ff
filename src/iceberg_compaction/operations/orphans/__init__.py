"""Orphan files: a table's folders are listed and compared with all that its metadata refers to; what is left over goes
into quarantine, from where it comes back or is deleted for good."""

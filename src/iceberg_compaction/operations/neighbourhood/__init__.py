"""The other tables of a catalog, before a file of one table is deleted: which folders they refer to files in, and which
of the files that are about to go they need. A catalog comes in; what could not be looked at is always told."""

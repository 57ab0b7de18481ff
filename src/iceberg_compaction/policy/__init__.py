"""Policies: what is wanted for which table, from files, table properties, flags and code. In: those sources and the
name of a table. Out: the one `TablePolicy` that they make for it, with the origin of each value. It may know the
vocabulary and the files that users name, and neither catalogs nor tables."""

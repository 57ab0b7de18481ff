"""Iceberg's own procedures in our words. A CALL statement comes in; a command of this program goes out, or the reason
why there is none. Knows options and verbs, neither catalogs nor tables."""

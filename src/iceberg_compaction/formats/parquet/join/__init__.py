"""Joins small row groups into a large one, column by column. In: row groups with their bytes in memory. Out: the bytes
of the joined columns, and their entries in the new footer. Values are decoded only where nothing else is right."""

"""The operation `tags`: tags for days, hours or months, with retention. A table and a goal come in; the tags that it
lacked are made in one commit."""

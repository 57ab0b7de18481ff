"""The operation `statistics`: counts of rows and files per partition, and sketches of distinct values per column. A
table and a goal come in; the files are written and registered for the snapshot that they were made of."""

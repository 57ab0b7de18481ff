"""Avro files. In: the bytes of a file, or rows. Out: Arrow tables, or the bytes of a file. Knows containers, codecs and
schemas, and that a map may be an array of pairs; knows no field of a manifest."""

"""Files of tables, through a FileIO. In: paths, properties of a catalog. Out: a FileIO that takes paths as they are
written, listings, names of files, work ahead; faults retried and translated, secrets hidden. Only `remove` deletes.
Knows stores and credentials; knows no catalog, no manifest and no plan."""

"""LOOK: reads a table's metadata and never its data.

In come a PyIceberg table, a branch and the cache; out come a TableView of one snapshot, the snapshot's manifests, its
history, and the values that tasks and commits need of them. Knows PyIceberg, storage and formats; knows no plan rules,
no engine and no catalog client."""

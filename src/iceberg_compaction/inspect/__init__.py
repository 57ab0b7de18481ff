"""SEE. The view of a table, its snapshot history and counts of applied deletes come in; `TableHealth` goes out:
figures, score, causes, advice. Pure arithmetic over whole columns; knows the vocabulary (`model`) and no other room."""

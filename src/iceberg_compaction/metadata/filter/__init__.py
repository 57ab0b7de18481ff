"""`where` from text to files. A text and a schema come in, a bound filter goes out that marks the files which may match
(R47). Knows PyIceberg's expressions, partition tuples and column metrics."""

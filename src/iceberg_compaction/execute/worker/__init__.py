"""One task, without Spark: source → arrange → sink.

In: a `RewriteTask` and the `RewriteContext` of its run. Out: a `TaskResult` with staged files and their proof.
It may know: PyIceberg's schemas, pyarrow, `formats`, `storage` and `model`; no engine, no catalog, no commit."""

"""Publishes changes of a table. In: a change that validates and stages itself, and the run that makes it. Out: the
committed attempt, or an error that says whether anything landed. It may know PyIceberg's updates and `catalog.publish`,
and nothing of operations, plans or engines."""

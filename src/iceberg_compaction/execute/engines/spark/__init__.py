"""The Spark engine. In: a job. Out: results of its tasks from executors, and a session that ends with the run. It may
know PySpark, Java and the environment."""

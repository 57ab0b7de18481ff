"""Engines, all behind `execute.engine_door`. In: a job. Out: results of its tasks, in any order. Only `spark` may know
PySpark."""

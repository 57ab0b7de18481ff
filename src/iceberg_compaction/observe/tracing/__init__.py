"""Spans of OpenTelemetry: of a run, its stages and its tasks, wherever these are performed. Nothing is imported and
nothing happens where no tracer is set up."""

"""The REST interface: requests come in, values of `model` go out as JSON, and errors as problem details. Reads come
from the run store; work is put into its queue for whoever does it."""

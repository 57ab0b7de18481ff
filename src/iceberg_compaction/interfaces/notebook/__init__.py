"""The library in a notebook. In: values and events. Out: HTML in the output of a cell. Nothing here imports IPython: a
process without a kernel has none."""

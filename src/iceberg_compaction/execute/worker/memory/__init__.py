"""The memory of tasks, foreseen: footers and budgets come in; a forecast of the peak, budgets that fit and a
reservation in the process's one budget go out, before rows are read.
"""

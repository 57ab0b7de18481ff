"""LEAF. The vocabulary: frozen values that two or more rooms use, with their words for people. Nothing comes in from
other rooms and no I/O happens here. Knows `errors`, pydantic and pyarrow."""

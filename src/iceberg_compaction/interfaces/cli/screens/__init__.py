"""How results and help look on a terminal. In: values of the model. Out: text that fits the width; nothing is cut."""

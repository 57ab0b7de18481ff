"""The outsides, kept thin. In: requests of people and programs. Out: outcomes, health and plans as values, text, JSON
or HTML. `wiring` puts the parts together. It may know every room."""

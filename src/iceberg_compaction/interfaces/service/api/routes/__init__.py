"""One module for each group of routes. What a route needs is on the `ServiceDesk`; it returns replies."""

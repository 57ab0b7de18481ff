"""What others see of runs: metrics out of events, outcomes and healths; spans; the run that a log line belongs to.
Events and values come in, nothing goes back: no part of the work depends on anything here. It knows `model` alone;
`prometheus_client` and `opentelemetry` are imported only if a setting asks for them."""

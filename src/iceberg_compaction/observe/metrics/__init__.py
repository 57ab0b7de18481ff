"""Metrics: their list, what feeds them, and where they go. Events, outcomes and healths of tables come in; Prometheus
(port, file, push gateway) and OpenTelemetry get the figures."""

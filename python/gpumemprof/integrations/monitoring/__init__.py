"""Metrics of running programs: for Prometheus (``gpumemprof run --metrics``) and OpenTelemetry."""

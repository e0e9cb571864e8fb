# The OpenTelemetry collector, with the receivers and the exporter that main.go names.
module=go.opentelemetry.io/collector/otelcol
packages=(osm.test/collector)

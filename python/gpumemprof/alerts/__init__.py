"""Tracks a device's memory and raises alerts: conditions, rules, sinks, the tracker."""

"""What every layer may use: errors, break reasons, configuration, counters."""

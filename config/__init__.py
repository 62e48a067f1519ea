"""Settings, paths and the project resolver: what every other part stands on."""

"""Sources mixed by weights: `mix`."""

"""What draws and optima say: summaries, diagnostics, modes, checks of edges, errors to a truth."""

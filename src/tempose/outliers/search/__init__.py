"""Finding the basin among wrong edges."""

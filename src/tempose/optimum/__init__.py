"""Starting points and optima."""

"""What is known: poses, graphs, priors, and the posterior they define."""

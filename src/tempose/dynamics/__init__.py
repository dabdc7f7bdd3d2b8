"""TG-MCMC itself: splitting schemes, the chain they push forward, and the descent at β → ∞."""

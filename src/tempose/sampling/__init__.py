"""Sampling: TG-MCMC, its tuning, its draws and what they say."""

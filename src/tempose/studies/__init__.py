"""Evidence: experiments and calibration on one machine."""

"""The paper's figures and tables and studies of our own, one file each; ``tempose experiment NAME -o DIR`` runs them.

A module of an experiment has one public name, ``EXPERIMENT`` (:class:`tempose.studies.experiment.Experiment`), and a line in
:mod:`tempose.studies.registry`.
"""

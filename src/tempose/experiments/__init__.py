"""The paper's figures and tables, one file each; ``tempose experiment NAME -o DIR`` runs them.

A module of an experiment has one public name, ``EXPERIMENT`` (:class:`tempose.experiments.base.Experiment`), and a line in
:mod:`tempose.experiments.registry`.
"""

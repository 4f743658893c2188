"""Rewards of a finished trajectory.

    facts      what a term may know
    process    terms about single actions
    terms/     functions of facts to a number, a file for each published system
    presets    the table: which terms a system adds up
    panel      adds them up, and users' own terms
"""

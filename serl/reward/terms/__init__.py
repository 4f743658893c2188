"""Reward terms: functions of `Facts` to a float, a file for each published system.

A term that depends on another says so itself: it asks `facts.well_formed` or `facts.ran` first. So terms can be weighed
and left out one by one.
"""

"""Measuring callables, as the suite measures its workloads."""

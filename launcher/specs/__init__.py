"""Frozen values that runner and node launcher share: plan, program, environment and policies."""

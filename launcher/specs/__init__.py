"""Frozen values that both halves share: plan, program, environment and policies."""

"""Held nodes: a fleet that programs use one after another."""

"""Receives a folder that the runner copies to its nodes."""

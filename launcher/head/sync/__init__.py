"""Copies a folder's changes to the nodes."""

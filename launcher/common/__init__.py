"""Foundations of all other packages: errors, event loop, values, text, files and addresses."""

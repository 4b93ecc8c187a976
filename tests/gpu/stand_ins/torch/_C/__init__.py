"""The compiled part of torch."""

"""The answers to questions of the runner, whatever runs here."""

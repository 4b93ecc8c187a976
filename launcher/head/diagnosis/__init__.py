"""The diagnosis of failures: their classes, and the evidence for each."""

"""Gates: features that hold nodes back until something is done."""

"""Where all workers are in their code: asked for, folded, and explained."""

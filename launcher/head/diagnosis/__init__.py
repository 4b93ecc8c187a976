"""Why workers have died: classes of failures, and what explains them."""

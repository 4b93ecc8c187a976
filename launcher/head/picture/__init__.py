"""A picture of a job over time, as one HTML file."""

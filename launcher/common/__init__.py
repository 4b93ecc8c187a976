"""What every part stands on: errors, the loop, values, text, files and addresses."""

"""Jobs from Python: launch, Fleet, Job."""

"""A job that runs one program: it is put together, started, watched and concluded."""

"""`make release`: wheel, source archive, list of components and checksums, and nothing uploaded.

`building` makes the archives, the same bytes each time; `components` lists what an installation
consists of. Tests try what was built: those beside this file, and tests/test_packaging.py.
"""

"""The preloader of a node: imports modules once, and forks workers that already have them.

The node launcher starts it with the Python of the workers, in their working folder and with the
variables that all of them share, by `spawn`:

    python -u .../launcher/features/preload/process.py

This program and the modules beside it that it uses need only the standard library of Python 3.10,
and import nothing else of dsrun. Standard input is a socket, the control line. Standard output and
standard error are pipes, like a worker's, for output of modules during import.

Messages are described in `node_messages`: JSON with descriptors on sockets of SOCK_SEQPACKET. Bytes
(words of a command, variables, paths) are text in UTF-8 with `surrogateescape`.

On the control line:

1. The node launcher sends its request:

       {"modules": ["torch", ...], "folders": [FOLDER, ...]}

   `folders` begin the `sys.path` of a worker, before the entries that this process has too: the
   real folder of the script, or with `-m` the working folder, and the first entries of the
   worker's PYTHONPATH. They are on the path only while a module is imported that is not found
   without them.

2. The preloader answers, once:

       {"modules": [...],      imported
        "missing": {...},      not found: name -> text. Forks are possible without them
        "failed": {...},       raised: name -> text. If there is any, do not fork
        "unsafe": "",          why forks would not be sound, for the user; if so, do not fork
        "read": {...},         variables that were read: name -> value or null (was not set)
        "prefixes": [...],     all variables that begin so count as read, by libraries in C
        "cpus": null,          or the CPUs from which thread pools have taken their size and places
        "files": {...},        imported files outside site-packages: path -> [mtime in ns, size]
        "folders": {...}}      folders of site-packages: path -> mtime in ns

   A worker may be forked if its variables are equal in `read`, and in all that begin with one of
   `prefixes`; if `cpus` is null or its own CPUs are these; and if `files` and `folders` are as
   they were.

3. The node launcher sends {"fork": N} with N descriptors, as often as it likes: one end of a socket
   (SOCK_SEQPACKET) for each new worker. There is no answer. If a fork is not possible, that socket
   is closed.

4. The node launcher closes the control line. The preloader ends; its forks live on.

On the socket of a worker:

1. The worker sends {"pid": PID}. It is now a child of the node launcher (which adopts orphans as
   a child subreaper), has its own session, and is killed with the node launcher.

2. The node launcher sends the order, with the descriptors for standard input, output and error, and
   those that the worker inherits; `fds` has their numbers there:

       {"argv": ["python", "-u", "train.py", ...],    [python, -u, -m, NAME, ...] for a module
        "env": {...},                                 the whole environment
        "workdir": FOLDER,
        "cpus": [0, 1],                               [] for no change
        "memory": ["bind", [0]],                      policy and NUMA nodes; ["", []] for none
        "path": [FOLDER],                             its PYTHONPATH before the preloader's entries
        "hook": FOLDER,                               of the hook, which runs first; "" for none
        "fds": [17]}

   Policies are `bind`, `preferred`, `preferred-many` and `interleave`. If the socket is closed
   instead, the worker is not needed and ends with code 0.

3. The worker closes the socket: its program runs. Before that it may have sent one message:

       {"cold": TEXT}     it becomes the worker by executing Python, which imports for itself; the
                          text is the reason for the user, "" if there is nothing to say (an
                          archive, a folder, byte code, or no such script)
       {"error": TEXT}    it could not become the worker, and has ended
"""

import os
import sys

FRESH = {name: value for name, value in globals().items() if name.startswith("__")}
"""Python's own names in the `__main__` of any script, such as this file."""

if __name__ == "__main__":
    usual = frozenset(sys.modules)
    path, library = sys.path[:], os.path.dirname(os.__file__)
    # Modules of the user must not replace the imports of this program.
    sys.path[:] = [one for one in path if one in {library, f"{library}/lib-dynload"}] or path
    # A package of a name that no import statement can write.
    package = type(sys)("dsrun preloader")
    package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
    sys.modules[package.__name__] = package
    __package__ = package.__name__
    from .node_server import serve

    sys.path[:] = path if getattr(sys.flags, "safe_path", False) else path[1:]
    serve(FRESH, usual)()

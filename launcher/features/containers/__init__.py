"""`--container`: node launchers, and so workers, in a container on each node.

The runner plans the container (`plan`). A backend starts the host half (`node_host`) on each node,
which becomes the client of the container's runtime; the client starts the node launcher inside, and
its standard streams are the control line.
"""

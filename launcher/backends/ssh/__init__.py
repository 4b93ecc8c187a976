"""Backends that log in to every host: paramiko, OpenSSH's client, pdsh."""

"""Requests of this user on this machine to a running job or hold."""

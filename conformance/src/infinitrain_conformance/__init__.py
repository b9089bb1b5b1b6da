"""The suite that a backend's authors install and run. `infinitrain-conformance --help` starts here.

Importing this package imports nothing else: the fresh processes of level L0 measure what a provider pulls in.
"""

"""The tests. Run them with `infinitrain-conformance`, or `pytest --pyargs infinitrain_conformance.suite`."""

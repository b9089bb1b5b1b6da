"""Run the examples in the project's Markdown files: `nox -s docs`.

A ```python block is executed; one that holds `>>>` prompts is checked as a doctest. The blocks of a file
share one namespace, from top to bottom. `<!--- skip: next -->` leaves the block after it out.
"""

from doctest import ELLIPSIS, NORMALIZE_WHITESPACE

try:
    import sybil
    from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser
except ImportError:  # only the docs session installs it; elsewhere Markdown files are not collected
    pass
else:
    pytest_collect_file = sybil.Sybil(
        parsers=[PythonCodeBlockParser(doctest_optionflags=ELLIPSIS | NORMALIZE_WHITESPACE), SkipParser()],
        patterns=["*.md"],
    ).pytest()

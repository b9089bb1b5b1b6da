"""Text and token data: where it comes from, how it is stored, and how it becomes batches.

Only NumPy and the standard library are needed here: data can be prepared and checked without a device.
"""

from .batches import BatchLoader, TokenDataset, split_tokens
from .corpus import corpus
from .errors import DataError
from .files import atomic_write, discard_unfinished
from .tokenizer import ByteTokenizer, Tokenizer
from .tokens import TokenHeader, read_header, read_tokens, write_tokens

__all__ = [
    "BatchLoader",
    "ByteTokenizer",
    "DataError",
    "TokenDataset",
    "TokenHeader",
    "Tokenizer",
    "atomic_write",
    "corpus",
    "discard_unfinished",
    "read_header",
    "read_tokens",
    "split_tokens",
    "write_tokens",
]

"""Text and token data: where it comes from, how it is stored, and how it becomes batches.

Only NumPy and the standard library are needed here: data can be prepared and checked without a device.
"""

from infinitrain.data.batches import BatchLoader, TokenDataset, split_tokens
from infinitrain.data.corpus import corpus
from infinitrain.data.errors import DataError
from infinitrain.data.files import atomic_write
from infinitrain.data.tokenizer import ByteTokenizer, Tokenizer
from infinitrain.data.tokens import TokenHeader, read_header, read_tokens, write_tokens

__all__ = [
    "BatchLoader",
    "ByteTokenizer",
    "DataError",
    "TokenDataset",
    "TokenHeader",
    "Tokenizer",
    "atomic_write",
    "corpus",
    "read_header",
    "read_tokens",
    "split_tokens",
    "write_tokens",
]

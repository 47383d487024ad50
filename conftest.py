"""Keeps what the tests cause to be cached out of the home of whoever runs them."""

import os
import tempfile

_folder = tempfile.TemporaryDirectory(prefix="omniloader-tests-")
os.environ["OMNILOADER_CACHE"] = _folder.name

"""The former way to ask for an open stdin."""

from __future__ import annotations

import enum
from typing import Final


class Stdin(enum.Enum):
    """What stdin can be besides data."""

    OPEN = "open"


OPEN: Final = Stdin.OPEN
"""As stdin of start and stream, the same as stdin_open=True. Deprecated: use that. Release 0.2.0 removes it."""

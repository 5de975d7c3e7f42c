"""What the README shows works, and needs nothing but Python."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import PATIENCE, Daemon

HERE = Path(__file__).resolve().parents[1]
BLOCKS = re.findall(r"```python\n(.*?)```", (HERE / "README.md").read_text(), re.S)


@pytest.mark.parametrize("n", range(len(BLOCKS)))
def test_the_examples_work(shared: Daemon, n: int) -> None:
    # Without site-packages: the standard library must do.
    program = f"import sys; sys.path.insert(0, {str(HERE / 'src')!r})\n" + BLOCKS[n]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-W", "error", "-c", program], timeout=PATIENCE,
        env={**os.environ, **shared.env()}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("hello", "got a line", "2 line(s)", "answered", "hello")[n] in done.stdout

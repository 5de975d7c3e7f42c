"""Runs every file of a directory as a test and reports how each ended."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import trl_client as trl

TIMEOUT_S = 5


def names(processes: list) -> str:
    return ", ".join(sorted(p.command for p in processes))


def verdict(result: trl.ExecResult) -> tuple[str, str]:
    """Return one word, and the reason unless the test passed."""
    if result.timed_out:
        return "TIMEOUT", f": ended after {TIMEOUT_S} s: {names(result.killed)}"
    if not result.ok:
        return "FAIL", f": exit status {result.exit_code}: {result.stderr.strip()}"
    if result.left_running:
        return "LEAK", f": left running: {names(result.left_running)}"
    return "PASS", ""


def main(directory: str) -> int:
    tests = sorted(Path(directory).iterdir())
    # The session ends at the end of the block, and with it everything that tests left running.
    with trl.connect() as t, t.session(working_dir=os.getcwd()) as s, ThreadPoolExecutor() as threads:
        # A list runs as a program beside the session's shell; wait=True queues it while too many run.
        results = threads.map(lambda test: s.run(["sh", str(test)], timeout_s=TIMEOUT_S, wait=True), tests)
        failed = 0
        for test, result in zip(tests, results):
            word, reason = verdict(result)
            failed += word != "PASS"
            print(f"{word:8} {test.name}{reason}")
    if failed:
        print(f"{failed} of {len(tests)} failed")
    return 1 if failed else 0


sys.exit(main(sys.argv[1]))

"""Sessions in other places."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

import trl_client as trl
from conftest import Daemon

IMAGE = os.environ.get("TRL_TEST_IMAGE")
"""An image, with a shell, of the engine that DOCKER_HOST names."""

MISSING = "SKIPPED: TRL_TEST_IMAGE names no image; a session in a container is not tested with the Python SDK"
if not IMAGE:
    print(MISSING, file=sys.stderr)


@pytest.fixture
def far() -> Iterator[Daemon]:
    """A daemon that has guests."""
    daemon = Daemon("--grpc", "127.0.0.1:0")
    yield daemon
    daemon.remove()


def use(daemon: Daemon, runtime: str, place: trl.types.PlaceOptions) -> None:
    """Use a session in a place as one on the host."""
    with trl.connect(daemon.socket) as t, t.session(runtime=runtime, place=place, env={"A": "v"}) as s:
        s.run("cd /tmp; x=kept")
        r = s.run('echo "$PWD $x $A"; echo err >&2; exit 3')
        assert (r.stdout, r.stderr, r.exit_code) == ("/tmp kept v\n", "err\n", 3)
        info = s.info()
        assert info.runtime == runtime and info.place is not None and info.place.kind == runtime.split(":")[0]
        with t.session(beside=s.id) as beside:
            assert beside.info().place == info.place


def test_other_daemon(daemon: Daemon, far: Daemon) -> None:
    with trl.connect(far.socket) as t:
        address = t.call("system.info")["grpc"]
    token = far.root / "token"
    token.write_text((far.root / "state" / "token").read_text().split()[-1] + "\n")
    token.chmod(0o600)
    use(daemon, f"trl:{address}", {"token_file": str(token)})


def test_no_such_place(shared: Daemon) -> None:
    with trl.connect(shared.socket) as t:
        with pytest.raises(trl.RuntimeUnavailable, match="no/such.sock"):
            t.session(runtime="docker:alpine", place={"engine": "unix:///no/such.sock"})
        with pytest.raises(trl.InvalidParams, match="moon"):
            t.session(runtime="moon:base")


@pytest.mark.skipif(not IMAGE, reason=MISSING)
def test_container(daemon: Daemon) -> None:
    engine = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    use(daemon, f"docker:{IMAGE}", {"engine": engine, "network": "none"})

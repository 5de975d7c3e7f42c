"""What is particular to HTTP, against the real daemon."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import trl_client as trl
from conftest import Daemon


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def test_the_token_decides(shared: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    where = shared.where("http")
    with trl.connect(url=where["url"], token="wrong") as t:
        with pytest.raises(trl.TrlError) as e:
            t.call("system.ping")
        assert e.value.code == "AUTH_FAILED"
        with pytest.raises(trl.TrlError) as e:
            t.events().open()
        assert e.value.code == "AUTH_FAILED"
    monkeypatch.setenv("TRL_AUTH_TOKEN", where["token"])
    with trl.connect(url=where["url"] + "/") as t:
        assert t.call("system.ping")["version"]


def test_a_silent_connection_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("trl_client._lanes", "trl_client._aio_lanes"):
        monkeypatch.setattr(f"{module}.SILENCE_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as nobody:  # the system accepts, and that is all
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        with trl.connect(url=url, token="t", reconnect=False) as t, pytest.raises(trl.ConnectionLost):
            t.call("system.ping")

        async def main() -> None:
            async with trl.aio.connect(url=url, token="t", reconnect=False) as t:
                with pytest.raises(trl.ConnectionLost):
                    await t.call("system.ping")

        asyncio.run(main())


def test_connections_are_used_again(shared: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    with trl.connect(**shared.where("http")) as t, t.session() as s:
        for _ in range(20):
            s.run("true")
        assert len(t._pool._idle) == 1
        lane = t._pool._idle[0]
        assert not lane.stale()
        monkeypatch.setattr("trl_client._lanes.IDLE_S", -1)
        assert lane.stale() and s.run("echo a").stdout == "a\n"


def test_streams_survive_kill_9() -> None:
    daemon = Daemon("--http", f"127.0.0.1:{free_port()}")
    try:
        with trl.connect(**daemon.where("http")) as t, t.session(shell="bash") as s:
            text = ""
            stream = s.stream("for ((i = 0; i < 300; i++)); do echo $i; sleep 0.01; done")
            for n, c in enumerate(stream):
                text += c.data
                if n in (20, 150):
                    daemon.kill()
                    daemon.start()
            assert text == "".join(f"{i}\n" for i in range(300))
    finally:
        daemon.remove()


@pytest.fixture
def certificate(tmp_path: Path) -> Iterator[Path]:
    """A certificate of localhost for itself."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl: not found")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", tmp_path / "key", "-out", tmp_path / "cert"],
        check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    yield tmp_path


def test_tls(certificate: Path) -> None:
    daemon = Daemon("--http", "127.0.0.1:0", "--tls-cert", str(certificate / "cert"), "--tls-key", str(certificate / "key"))
    try:
        where = daemon.where("http")
        assert where["url"].startswith("https://")
        with pytest.raises(trl.ConnectionLost) as e:
            trl.connect(**where)
        assert "certificate" in e.value.message
        where["tls"] = ssl.create_default_context(cafile=str(certificate / "cert"))
        with trl.connect(**where) as t, t.session(shell="bash") as s:
            assert s.run("head -c 200000 /dev/zero").stdout_bytes == 200_000
            assert [c.data for c in s.stream("echo a; exit 3")] == ["a\n", ""]
            for _ in s.stream("while echo a; do sleep 0.01; done"):
                break
            s.cancel()

        async def main() -> None:
            async with trl.aio.connect(**where) as t, t.session(shell="bash") as s:
                assert (await s.run("echo a")).stdout == "a\n"
                assert [c.data async for c in s.stream("echo a; exit 3")] == ["a\n", ""]
                async for _ in s.stream("while echo a; do sleep 0.01; done"):
                    break
                await s.cancel()
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(s.run("sleep 1000", wait=True), 0.2)

        asyncio.run(main())
    finally:
        daemon.remove()


@pytest.mark.parametrize("way", ["socket", "http"])
def test_a_request_that_is_too_large(way: str) -> None:
    daemon = Daemon("--http", "127.0.0.1:0", "--max-request-bytes", "100000", "--max-stdin-bytes", "50000")
    try:
        with trl.connect(**daemon.where(way)) as t, t.session() as s:
            with pytest.raises(trl.TrlError) as e:
                s.run("cat", stdin="x" * 10_000_000)
            assert e.value.code == "REQUEST_TOO_LARGE"
            assert s.run("echo fine").stdout == "fine\n"

            async def main() -> None:
                async with trl.aio.connect(**daemon.where(way)) as t:
                    with pytest.raises(trl.TrlError) as e:
                        await (await t.get_session(s.id)).run("cat", stdin="x" * 10_000_000)
                    assert e.value.code == "REQUEST_TOO_LARGE"

            asyncio.run(main())
    finally:
        daemon.remove()

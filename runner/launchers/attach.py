"""A URL that already serves: measured, never started, never stopped."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from runner.launchers import NO_PULL, Exit, Image, Launch, LaunchError, Pulling, Way


class AttachServer:
    """Someone else's server. What it logs and how it ends is not known here."""

    way: Way = "remote"

    def __init__(self, url: str, host: str, port: int) -> None:
        self.control_url = url
        self.load_host = host
        self.load_port = port

    def exited(self) -> Exit | None:
        """Return None: nobody here can tell."""
        return None

    def stop(self, grace_s: float) -> Exit:
        """Leave it running."""
        del grace_s
        return Exit(code=None)

    def remove(self) -> None:
        """Leave it running."""

    def seconds_of_line(self, line: int) -> float | None:
        """Return None: its log is not ours."""
        del line
        return None


class AttachLauncher:
    """Takes servers that others started."""

    def resolve(self, image: str, pulling: Pulling = NO_PULL) -> Image:
        """Return `image` without a digest: nobody tells what serves there."""
        return Image(reference=image, digest="")

    def start(self, launch: Launch, log: Path) -> AttachServer:
        """Take the server at `launch.url`; `log` stays empty.

        Raises:
            LaunchError: the URL is not one of http or https.
        """
        try:
            parts = urlsplit(launch.url or "")
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError as error:
            raise _bad(launch.url, str(error)) from error
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise _bad(launch.url, "no http or https address")
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"")
        return AttachServer((launch.url or "").rstrip("/"), parts.hostname, port)


def _bad(url: str | None, why: str) -> LaunchError:
    return LaunchError(
        "create", "launch_failed", f"{url!r}: {why}; write it as http://127.0.0.1:8000"
    )

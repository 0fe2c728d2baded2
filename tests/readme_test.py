#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the README's own examples against the daemon: feeds it from Python and from C at the pace of a
digitiser, reads a spectrum. Exit 77: skipped."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

try:
    import numpy  # noqa: F401
    import zmq  # noqa: F401
except ImportError as missing:
    print(f"skipped: the README's examples need python3-numpy and python3-zmq ({missing})")
    sys.exit(77)

source, binaries = map(pathlib.Path, sys.argv[1:3])
readme = (source / "README.md").read_text()


def snippet(language, mark):
    for block in re.findall(rf"```{language}\n(.*?)```", readme, re.S):
        if mark in block:
            return block
    sys.exit(f"README.md has no {language} example with '{mark}'")


def start(*command, **options):
    return subprocess.Popen([str(part) for part in command], **options)


def expect_pace(endpoint, windows):
    """As a digitiser: no window comes before its last sample has been, none is too much to take."""
    sub = zmq.Context.instance().socket(zmq.SUB)
    for topic in ("cbf.azimuth", "status"):
        sub.subscribe(topic)
    sub.rcvtimeo = 60000
    sub.connect(endpoint)
    processed = 0
    while processed < windows:
        topic, head, _ = sub.recv_multipart()
        h = json.loads(head)
        if topic == b"status":
            processed = h["windows"]["processed"]
            assert sum(h["windows"]["dropped"].values()) == 0, h["windows"]
        else:
            end_ns = h["utc_ns"] + h["window_length"] / h["fs_hz"] * 1e9
            assert end_ns < time.time_ns(), f"{(end_ns - time.time_ns()) / 1e9} s too early"


def main(folder):
    config = folder / "sonard.yaml"
    text = (source / "config/demo.yaml").read_text().replace("mvdr:\n  enabled: true",
                                                             "mvdr:\n  enabled: false")
    for port, name in (("5555", "in"), ("5556", "out")):
        text = text.replace(f"tcp://127.0.0.1:{port}", f"ipc://{folder}/{name}")
    config.write_text(text)
    files = {"feed.py": snippet("python", "# feed"), "read.py": snippet("python", "# read"),
             "feed.c": snippet("c", "zmq_connect(push")}
    for name, code in files.items():
        code = code.replace("tcp://127.0.0.1:5555", f"ipc://{folder}/in")
        (folder / name).write_text(code.replace("tcp://127.0.0.1:5556", f"ipc://{folder}/out"))
    subprocess.run(["cc", "-Wall", "-Werror", "-o", folder / "feed", folder / "feed.c", "-lzmq"],
                   check=True)
    for feeder in ([sys.executable, folder / "feed.py"], [folder / "feed"]):
        daemon = start(binaries / "sonard", config)
        reader = start(sys.executable, "-u", folder / "read.py", stdout=subprocess.PIPE, text=True)
        feed = start(*feeder)
        try:
            line = reader.stdout.readline()
            print(feeder[-1].name, "->", line.strip())
            assert "loudest at" in line and "uPa^2" in line, line
            expect_pace(f"ipc://{folder}/out", windows=6)
        finally:
            for process in (feed, reader, daemon):
                process.terminate()
                process.wait(10)
        assert daemon.returncode == 0, daemon.returncode


with tempfile.TemporaryDirectory() as name:
    main(pathlib.Path(name))
print("2 passed, 0 failed")

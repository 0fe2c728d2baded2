# SPDX-License-Identifier: GPL-3.0-or-later
"""For tests of sonar-feed, whose first argument is the folder of the programs. Exit 77: skipped."""
import atexit
import collections
import pathlib
import struct
import subprocess
import sys
import time

try:
    import numpy as np
    import zmq
except ImportError as missing:
    print(f"skipped: the test needs python3-numpy and python3-zmq ({missing})")
    sys.exit(77)

binaries = pathlib.Path(sys.argv[1]).resolve()
SECOND, PATIENCE_S = 10**9, 120
DTYPES = {1: "<i2", 3: "<i4", 4: "<f4"}

Frame = collections.namedtuple("Frame", "epoch first index utc_ns rate data")  # first: channel; data[sample][channel]


class Ear:
    """A socket in a daemon's place, and sonar-feed, which sends to it."""

    def __init__(self, folder, *arguments, stdin=subprocess.DEVNULL, env=None):
        self.pull = zmq.Context.instance().socket(zmq.PULL)
        self.pull.rcvhwm = 0
        self.pull.bind(f"ipc://{folder}/in")
        self.log = open(folder / "log", "w+")
        self.tool = subprocess.Popen([binaries / "sonar-feed", *map(str, arguments), "--endpoint", f"ipc://{folder}/in",
                                      "--array-id", "1", "--wait", "--summary", folder / "summary"],
                                     stdin=stdin, stderr=self.log, env=env)
        atexit.register(self.tool.kill)
        self.frames = []

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def take(self):
        head, body = self.pull.recv_multipart()
        first, channels, count, kind = struct.unpack_from("<IIIB", head, 12)
        (epoch,) = struct.unpack_from("<I", head, 28)
        index, utc_ns, rate = struct.unpack_from("<Qqd", head, 40)
        data = np.frombuffer(body, "u1").reshape(-1, 3) if kind == 2 else np.frombuffer(body, DTYPES[kind])
        if kind == 2:
            data = (np.hstack([np.zeros((len(data), 1), "u1"), data]).copy().view("<i4") >> 8).ravel()
        self.frames.append(Frame(epoch, first, index, utc_ns, rate, data.reshape(count, channels)))

    def listen(self, done=lambda ear: False):
        """Waits until done(self), or until the end; a hang is when no frame comes any more."""
        until = time.monotonic() + PATIENCE_S
        while not done(self):
            assert time.monotonic() < until, (self.said(), len(self.frames), self.counts())
            ended = self.tool.poll() is not None
            if self.pull.poll(50):
                self.take()
                until = time.monotonic() + PATIENCE_S
            elif ended:
                break
        return self

    def counts(self):
        """Samples of each channel."""
        found = {}
        for frame in self.frames:
            for c in range(frame.data.shape[1]):
                found[frame.first + c] = found.get(frame.first + c, 0) + len(frame.data)
        return found

    def runs(self):
        """(first index, samples) of what follows without a gap."""
        found = []
        for frame in self.frames:
            if found and found[-1][0] + sum(map(len, found[-1][1])) == frame.index:
                found[-1][1].append(frame.data)
            else:
                found.append((frame.index, [frame.data]))
        return [(index, np.concatenate(parts)) for index, parts in found]

    def end(self, code=0, number=None):
        if number:
            self.tool.send_signal(number)
        self.listen()
        assert self.tool.wait(PATIENCE_S) == code, (self.tool.returncode, self.said())
        self.pull.close()
        return self

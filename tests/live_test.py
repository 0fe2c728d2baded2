#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""sonar-bench live: its counts add up for any stream, its times are in the right order, the topics of a case
have come, errors are reported, and no process or file is left behind. No speed is tested.
usage: live_test.py SOURCE BIN [--part K/N]   the K-th of N parts of the tests"""
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

source, binaries = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
maker = source / "scripts" / "bench-page"
SMALL = ["--sensors", "33", "--case", "latency", "--backend", "cpu", "--threads", "1", "--warm-up", "1",
         "--seconds", "2", "--set", "dft.length=4000", "--set", "dft.hop=700", "--set", "cbf.band_bins=[40, 70]"]
EVERYTHING = ["cbf.azimuth", "cbf.nearfield", "cbf.lofar", "mvdr.azimuth", "mvdr.spectrum", "detections", "status"]

HANG_S = 600
# Waits for a rank that gets no processor for seconds.
PATIENT = ["--set", "ingest.queue_windows=80", "--set", "ingest.max_skew_ms=5000", "--set", "cluster.max_skew_ms=10000"]


def start_of(pid):
    """When the process started, which tells it from a later one of the same number; None: it has ended."""
    try:
        state, *rest = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state == "Z" else rest[18]


def children_of(pid):
    return [int(child) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text().split()]


class Live:
    """One run of the program with its own folder for temporary files."""

    def __init__(self, *arguments):
        self.folder = tempfile.TemporaryDirectory()
        self.json = pathlib.Path(self.folder.name) / "live.json"
        (pathlib.Path(self.folder.name) / "tmp").mkdir()
        self.process = subprocess.Popen(
            [binaries / "sonar-bench", "live", "--json", self.json, *arguments], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=os.environ | {"TMPDIR": self.folder.name + "/tmp", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                              "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        self.seen, self.text = {}, ""  # seen: process -> its start

    def children(self, name):
        """Processes of that name that were started by the program, or by mpirun for it."""
        found = children_of(self.process.pid)
        for pid in list(found):
            found += children_of(pid)
        self.seen |= {pid: born for pid in found if (born := start_of(pid))}
        return [p for p in found if pathlib.Path(f"/proc/{p}/comm").read_text().strip() == name]

    def wait_for_child(self, name):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                if found := self.children(name):
                    return found[-1]
            except FileNotFoundError:  # one ended meanwhile
                pass
            time.sleep(0.02)
        raise AssertionError(f"no {name} within a minute")

    def stream(self):
        """Waits until the warm-up is over; returns the daemon."""
        while "streaming" not in self.text:
            line = self.process.stdout.readline()
            assert line, self.text
            self.text += line
        time.sleep(1.5)
        self.wait_for_child("bench-sender")
        return self.wait_for_child("sonard")

    def end(self, *codes):
        text = self.text + self.process.communicate(timeout=HANG_S)[0]
        assert self.process.returncode in codes, (codes, self.process.returncode, text)
        alive = [pid for pid, born in self.seen.items() if start_of(pid) == born]
        assert not alive, (alive, text)
        left = [name for name in os.listdir(self.folder.name + "/tmp") if not name.startswith("ompi.")]
        assert not left, (left, text)
        data = json.loads(self.json.read_text()) if self.json.exists() else None
        return text, data


def adds_up(run):
    """Every window of the plan is either received or counted as lost, once."""
    p, w = run["parameters"], run["windows"]
    frames = math.ceil((p["warm_up_s"] + p["seconds"]) * p["fs_hz"] / p["frame_samples"])
    samples = frames * p["frame_samples"]
    assert w["expected"] == (samples - p["length"]) // p["hop"] + 1, w
    assert w["expected"] == w["received"] + sum(w["lost"].values()) and w["unaccounted"] == 0, w
    steady = w["after_warm_up"]
    before = sum((k * p["hop"] + p["length"]) / p["fs_hz"] < p["warm_up_s"] - 1e-9
                 for k in range(w["expected"]))
    assert 0 <= w["expected"] - before - steady["expected"] <= 1, (before, w)
    assert run["senders"]["frames_planned"] == frames * p["senders"], run["senders"]
    d = run["daemon"]
    assert d["frames"]["received"] == d["frames"]["accepted"] + sum(d["frames"]["dropped"].values())
    assert d["frames"]["received"] <= run["senders"]["frames_sent"]
    assert run["latency_ms"]["count"] == steady["received"] <= w["received"]
    assert run["held"] == (not run["not_held"])
    topics = dict(run["subscribed"])
    assert topics.pop("status") > 0 and all(w["received"] <= count <= w["expected"] for count in topics.values()), run
    return w


def in_order(run):
    """Published before it is received, received after it was sent, and sent after it was due."""
    shares = ("p50", "p90", "p99", "p99_9", "max")
    inner = None
    for name in ("daemon_latency_ms", "latency_from_sent_ms", "latency_ms"):
        values = [run[name][share] for share in shares]
        assert values == sorted(values) and values[0] > 0, (name, values)
        if inner:
            assert all(a <= b for a, b in zip(inner, values)), (name, inner, values)
        inner = values
    assert 0 <= run["sender_lateness_ms"]["p50"], run["sender_lateness_ms"]


def one_run():
    for case, layout, transport in (("latency", "channel-major", "sockets"), ("latency", "channel-major", "curve"),
                                    ("throughput-everything", "interleaved", "tcp")):
        # so long that the daemon would report sensors as stuck if their samples repeated
        live = Live(*SMALL, "--case", case, "--layout", layout, "--transport", transport, "--seconds", "5")
        live.stream()
        (path,) = pathlib.Path(live.folder.name).glob("tmp/*/sonard.yaml")
        config = path.read_text()
        assert config.count("tcp://127.0.0.1:") == (0 if transport == "sockets" else 2), config
        assert ("key_secret" in config) == (transport == "curve"), config
        text, data = live.end(0)
        (run,) = data["live"]
        w = adds_up(run)
        everything = case == "throughput-everything"
        assert list(run["subscribed"]) == (EVERYTHING if everything else ["cbf.azimuth", "status"]), run["subscribed"]
        assert "subscribed: cbf.azimuth " in text and "health at the end: " + run["health"]["state"] in text, text
        assert not [t for t in run["health"]["conditions"] if "stuck" in t or "identical" in t], run["health"]
        assert run["parameters"]["mvdr"] == everything
        assert data["schema"] == "sonar-bench/1" and data["results"] == data["left_out"] == []
        assert run["parameters"]["transport"] == transport
        assert run["parameters"]["layout"] == layout and run["backend"] == "cpu" and not run["trial"]
        assert run["parameters"]["ranges"] == (7 if everything else 0)
        assert w["received"] > 0 and run["tone"]["az_deg"] == run["tone"]["found_az_deg"], run["tone"]
        assert run["daemon"]["threads"][0]["busiest"] >= run["daemon"]["threads"][-1]["busiest"]
        assert run["daemon"]["latency_parts"].keys() >= {"ingest", "dft", "publication", "other"}, run["daemon"]
        assert "sonar-ingest" in {t["name"] for t in run["daemon"]["threads"]}
        if w["after_warm_up"]["received"] and w["after_warm_up"]["incomplete"] == 0:
            in_order(run)


def on_ranks():
    """Each rank gets its own block of channels at its own endpoint, and together they are one array's run."""
    for ranks, transport, senders, case in ((2, "sockets", 8, "latency-everything"), (3, "shm", 5, "latency"),
                                            (2, "curve", 2, "latency")):
        live = Live(*SMALL, *PATIENT, "--ranks", str(ranks), "--transport", transport, "--senders", str(senders),
                    "--case", case, "--set", "dft.hop=2000")
        live.stream()
        assert len(live.children("sonard")) == ranks and len(live.children("mpirun")) == 1, live.seen
        (path,) = pathlib.Path(live.folder.name).glob("tmp/*/sonard.yaml")
        assert path.read_text().count("{rank}") == (2 if transport == "shm" else 1), path.read_text()
        text, data = live.end(0)
        (run,) = data["live"]
        w = adds_up(run)
        assert run["parameters"]["ranks"] == ranks and f"{ranks} ranks" in text, (run["parameters"], text)
        blocks = [r["channels"] for r in run["daemon"]["ranks"]]
        assert blocks == [[33 * r // ranks, 33 * (r + 1) // ranks - 1] for r in range(ranks)], blocks
        frames = run["daemon"]["frames"]
        assert all(r["frames_accepted"] > 0 for r in run["daemon"]["ranks"]), run["daemon"]["ranks"]
        assert sum(r["frames_accepted"] for r in run["daemon"]["ranks"]) == frames["accepted"], frames
        assert w["received"] > 0 and run["tone"]["az_deg"] == run["tone"]["found_az_deg"], run["tone"]
        threads = {t["name"]: t["count"] for t in run["daemon"]["threads"]}
        assert threads["sonar-data"] == threads["sonar-ingest"] == ranks and "mpirun" not in threads, threads
        if w["after_warm_up"]["received"] and w["after_warm_up"]["incomplete"] == 0:
            in_order(run)


def ranks_in_trouble():
    """A rank that stops and resumes is distinguished from the array's losses; one that dies ends the run."""
    live = Live(*SMALL, "--ranks", "2", "--seconds", "5")
    live.stream()
    rank = live.children("sonard")[1]
    os.kill(rank, signal.SIGSTOP)
    time.sleep(1.5)
    os.kill(rank, signal.SIGCONT)
    (run,) = live.end(0)[1]["live"]
    adds_up(run)
    assert not run["held"] and run["not_held"], run
    live = Live(*SMALL, "--ranks", "2", "--seconds", "20")
    live.stream()
    os.kill(live.children("sonard")[1], signal.SIGKILL)
    text, data = live.end(1)
    assert "sonard: ended with exit code 137" in text and data["live"] == [], text
    live = Live(*SMALL, "--ranks", "2", "--seconds", "20")
    live.stream()
    live.process.send_signal(signal.SIGTERM)
    assert "stopped by a signal" in live.end(1)[0]
    for arguments, says in ((["--ranks", "0"], "'0'"), (["--ranks", "34"], "which feed no sensor"),
                            (["--ranks", "3", "--senders", "2"], "2 for 3 ranks"),
                            (["--ranks", "11", "--transport", "tcp"], "at most 10 over TCP"),
                            (["--ranks", "2", "--set", "cluster.ranks=[11, 11, 11]"], "2 ranks")):
        text = Live(*SMALL, *arguments).end(2)[0]
        assert says in text, (arguments, text)
    for arguments, says in ((["--mpirun", "/no/such/mpirun"], "No such file"),
                            (["--daemon", "/bin/false"], "exit code 1; its last line: Primary job")):
        text = Live(*SMALL, "--ranks", "2", *arguments).end(1)[0]
        assert says in text, (arguments, text)


def topics_that_do_not_come():
    """A topic of the case's that the daemon never makes ends the run without a figure; one that loses messages on
    the way is named, and its windows are lost."""
    text, data = Live(*SMALL, "--case", "latency-everything", "--set", "mvdr.enabled=false").end(1)
    assert "mvdr.azimuth: subscribed to, but received for none of " in text, text
    assert data["live"] == [] and data["left_out"][0]["where"] == "mvdr.azimuth", data
    live = Live(*SMALL, "--case", "latency-everything", "--set", "output.high_water_mark=16", "--seconds", "6")
    live.stream()
    live.process.send_signal(signal.SIGSTOP)  # the sockets' buffers hold far less than the messages published meanwhile
    time.sleep(3)
    live.process.send_signal(signal.SIGCONT)
    text, data = live.end(0)
    (run,) = data["live"]
    w = adds_up(run)
    assert w["lost"]["subscriber"] > 0 and not run["held"], run
    assert [r for r in run["not_held"] if " windows published were received: " in r and "mvdr.spectrum" in r], run["not_held"]


def a_stalled_daemon():
    live = Live(*SMALL, "--seconds", "5")
    daemon = live.stream()
    os.kill(daemon, signal.SIGSTOP)
    time.sleep(1.5)
    os.kill(daemon, signal.SIGCONT)
    text, data = live.end(0)
    (run,) = data["live"]
    adds_up(run)
    assert not run["held"] and "NOT held" in text, run["not_held"]
    # the senders either waited for room, or filled the buffers in between and noticed later
    assert run["windows"]["received"] < run["windows"]["expected"] or run["latency_ms"]["max"] > 100


def what_ends_early():
    live = Live(*SMALL, "--seconds", "20")
    live.stream()
    os.kill(live.children("bench-sender")[1], signal.SIGKILL)
    text, data = live.end(1)
    assert "was killed by signal 9 after" in text and "sender 1 (process" in text, text
    assert data["live"] == [] and "sender 1" in data["left_out"][0]["why"], data["left_out"]
    live = Live(*SMALL, "--seconds", "20")
    os.kill(live.stream(), signal.SIGKILL)
    assert "sonard: was killed by signal 9" in live.end(1)[0]
    live = Live(*SMALL, "--seconds", "20")
    live.stream()
    live.process.send_signal(signal.SIGTERM)
    assert "stopped by a signal" in live.end(1)[0]


def a_bad_end():
    """Everything is measured, but the daemon does not exit cleanly."""
    with tempfile.TemporaryDirectory() as folder:
        wrapper = pathlib.Path(folder) / "wrapper"
        wrapper.write_text(f"""#!/bin/sh
trap 'kill -TERM $daemon' TERM
'{binaries}/sonard' "$1" &
daemon=$!
wait $daemon
wait $daemon
exit 3
""")
        wrapper.chmod(0o755)
        text, data = Live(*SMALL, "--daemon", wrapper).end(0)
    (run,) = data["live"]
    adds_up(run)
    assert not run["held"] and any("exit code 3" in r for r in run["not_held"]), run["not_held"]


def refusals():
    for arguments, says in ((["--daemon", "/no/such/sonard"], "/no/such/sonard: No such file"),
                            (["--daemon", "/tmp"], "/tmp is not a program"),
                            (["--case", "nonsense"], "there is no live case"),
                            (["--find=8,8"], "ascending"), (["--senders", "40"], "40 for 33 channels"),
                            (["--set", "dft.hop"], "OPTION=VALUE"),
                            (["--warm-up", "0", "--seconds", "0.2"], "two windows"),
                            (["--set", "dft.hop=no"], "would not accept"), (["--layout", "x"], "'x'"),
                            (["--set", "ingest.socket=sub"], "ingest.socket must be pull"),
                            (["--set", "mvdr.enabled=true"], "no topic of the MVDR"),
                            (["--set", "detections.enabled=true"], "no detections"),
                            (["--set", "cbf.ranges_m=[9000]"], "no cbf.nearfield"),
                            (["--set", "output.topics=[cbf.azimuth]"], "needs a topic of every window, and status"),
                            (["--set", "dft.hop=4000", "--seconds", "0.1"], "a window only every 0.2 s")):
        given = SMALL if arguments[0] != "--find=8,8" else SMALL[2:]
        text = Live(*given, *arguments).end(2)[0]
        assert says in text, (arguments, text)
    assert "its last line" in Live(*SMALL, "--daemon", "/bin/false").end(1)[0]
    with tempfile.TemporaryDirectory() as folder:
        earlier = pathlib.Path(folder) / "live.json"
        earlier.write_text("of an earlier run")
        refused = subprocess.run([binaries / "sonar-bench", "live", "--json", earlier, *SMALL, "--set",
                                  "dft.hop=no"], capture_output=True, timeout=HANG_S)
        assert refused.returncode == 2 and earlier.read_text() == "of an earlier run", refused


def the_search():
    held = []
    for _ in range(20):  # a machine with other work may not hold nine sensors either
        live = Live(*SMALL[2:], "--case", "throughput", "--find=9,16777216", "--trial", "1.5")
        text, data = live.end(0, 1)
        for run in data["live"]:
            adds_up(run)
        if held := [r for r in data["live"] if r["held"] and not r["trial"]]:
            break
    assert held and live.process.returncode == 0, text
    trials = [r for r in data["live"] if r["trial"]]
    final = [r for r in data["live"] if not r["trial"]]
    assert {r["parameters"]["sensors"] for r in trials + final} == {9} and len(final) == 1, text
    assert [o["case"] for o in data["left_out"]] == ["throughput, 16777216 sensors"], data["left_out"]
    return data


def pages(data):
    with tempfile.TemporaryDirectory() as folder:
        data_folder = pathlib.Path(folder) / "data"
        data_folder.mkdir()
        base = data_folder / "node-2026-01-31.json"
        base.write_text(json.dumps(data | {"live": [], "left_out": []}))
        beside = data_folder / "live-node-latency-2026-02-01.json"
        beside.write_text(json.dumps(data))
        (data_folder / "live-node-of-another-2026-02-01.json").write_text("not read")
        for file in (base, beside):
            subprocess.run([maker, file], check=True)
            text = (pathlib.Path(folder) / (file.stem[:-11] + ".md")).read_text()
            for expected in ("## Live", "### Throughput", "### Limits", "| 9 |", "| 2048 |",
                             "16777216 sensors", "| `throughput` | cbf.azimuth | cpu | sockets | 9 |"):
                assert expected in text, (expected, text)


def the_search_and_its_pages():
    pages(the_search())


# The K-th of N parts takes every N-th test, so that the longest are in different parts.
TESTS = (one_run, on_ranks, ranks_in_trouble, topics_that_do_not_come, a_stalled_daemon, what_ends_early, a_bad_end,
         refusals, the_search_and_its_pages)
if __name__ == "__main__":
    part, parts = map(int, sys.argv[4].split("/")) if sys.argv[3:4] == ["--part"] else (1, 1)
    tests = TESTS[part - 1::parts]
    if not shutil.which("mpirun") or not (binaries.parent / "lib" / "libsonar-mpi.so").exists():
        print("ranks: skipped: there is no mpirun, or no MPI plugin was built")
        tests = [test for test in tests if test not in (on_ranks, ranks_in_trouble)]
    for test in tests:
        began = time.monotonic()
        test()
        print(f"{test.__name__}: ok, {time.monotonic() - began:.1f} s", flush=True)

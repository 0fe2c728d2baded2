#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""scripts/sturdiness-page: its page is what its data give, and logs give those data. usage: sturdiness_test.py SOURCE"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

source = pathlib.Path(sys.argv[1])


def run(maker, *arguments, ok=True):
    done = subprocess.run([maker, *arguments], capture_output=True, text=True)
    assert (done.returncode == 0) == ok, (arguments, done.stdout, done.stderr)
    return done.stderr


def attack(got, gap, joined):
    return (f"tcp: many: {got} of 64 windows, 0 given up, longest gap {gap} s; {joined} joined, within 0.07 s; "
            "300 connections came, at most 20 MiB\n")


run(source / "scripts" / "sturdiness-page", "--check")
with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    maker, log = root / "scripts" / "sturdiness-page", root / "log"
    (root / "docs" / "benchmarks" / "data").mkdir(parents=True)
    maker.parent.mkdir()
    shutil.copy(source / "scripts" / "sturdiness-page", maker)
    data, page = root / "docs/benchmarks/data/sturdiness.json", root / "docs/benchmarks/sturdiness.md"

    log.write_text(attack(64, 0.1, 3))
    assert "no 'run: DATE COMMIT BUILD'" in run(maker, log, ok=False)

    head = "run: 2026-11-24 0123456789 release a note\n"
    visits = "tcp, block: visits: 8.5 s, 20 MiB\n"
    log.write_text(head + attack(64, 0.1, 3) + visits + attack(60, 0.3, 2) + visits +
                   "stopped within 0.25 s\nstopped within 0.05 s\ntcp, block: stops: 5.0 s, 21 MiB\n"
                   "fuzz_zap: 20 s: 1000 executions, 50 a second, 3 new inputs, no finding\n"
                   "ok 1 - 3000 mutated requests of pages, seed 24\nnot ok 2 - 3000 mutated frames, seed 24\n"
                   "block: 100 windows of 101, 5000 frames, 30 subscribers, 7 changes; 20480 KiB, grown by -4 KiB; 40 descriptors\n")
    run(maker, log)
    rows = json.loads(data.read_text())
    many, stops = rows["attack|release|tcp|many"], rows["campaign|release|tcp|stops"]
    assert (many["got"], many["of"], many["gap"], many["joined"], many["rounds"]) == (124, 128, 0.3, 5, 2), many
    assert stops["stop"] == 0.25 and stops["commit"] == "0123456" and not stops["problems"], stops
    assert "stop" not in rows["campaign|release|tcp|visits"]
    assert rows["soak|release|block"]["grown"] == -4 and rows["fuzz|release|zap"]["inputs"] == 1000
    assert rows["fuzz|release|requests of pages"]["inputs"] == 3000 and not rows["fuzz|release|requests of pages"]["problems"]
    frames = rows.pop("fuzz|release|frames")
    assert frames["problems"] == ["failed with the seed 24"] and not any(row["problems"] for row in rows.values())
    assert "a note" in page.read_text()

    # A failure is reported with its campaign, so is a run that was aborted, and the other campaigns stay.
    log.write_text(head + attack(64, 1.5, 3) + "plain_siege: a gap: 2, not 1\n" + visits + "fuzz_zap: a finding; its input is here\n"
                   "plain_siege: the daemon is gone\n")
    run(maker, log)
    rows = json.loads(data.read_text())
    assert rows["campaign|release|tcp|visits"]["problems"] == ["many: a gap: 2, not 1"] and "stops" in page.read_text()
    for words in ("**failed**", "a gap: 2, not 1", "a finding", "the daemon is gone"):
        assert words in page.read_text(), words
    run(maker, "--check")
    page.write_text("")
    run(maker, "--check", ok=False)
print("passed")

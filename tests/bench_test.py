#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""sonar-bench's JSON has the fields the documentation promises, and the pages under docs/benchmarks
are what scripts/bench-page makes of the files under docs/benchmarks/data. usage: bench_test.py SOURCE BIN"""
import copy
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

source, binaries = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
maker = source / "scripts" / "bench-page"
HANG_S = 600


def run(*arguments, ok=True):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=HANG_S)
    assert (done.returncode == 0) == ok, (arguments, done.returncode, done.stderr)
    return done


def bench(*arguments):
    return json.loads(run(binaries / "sonar-bench", "--json", "-", "--repetitions", 3, "--min-time",
                          0, *arguments).stdout)


SMALL = ["--sensors", 8, "--length", 128, "--cbf-bins", "20:31", "--lofar-bins", "10:40", "--angles",
         5, "--ranges", 2, "--mvdr-bins", "20:22", "--snapshots", 12]
FIELDS = set("case backend stage implementation parameters repetitions batch min_ns median_ns p99_ns "
             "single_median_ns single_p99_ns processor_ns flop bytes host_bytes gflops floor_ns share_of_floor bound "
             "error_db sweeps".split())


def schema():
    data = bench(*SMALL)
    assert data["schema"] == "sonar-bench/1" and data["left_out"] == []
    assert {"cpu", "cores", "threads", "memory", "kernel", "compiler", "isa"} <= data["machine"].keys()
    peers = [r for r in data["results"] if r["backend"] == "peer"]
    data["results"] = [r for r in data["results"] if r["backend"] != "peer"]
    stages = [r["stage"] for r in data["results"]]
    assert stages == ["dft", "cbf.far", "cbf.near", "cbf.lofar", "cbf.all", "cbf.looks", "mvdr", "beam", "beam.turning",
                      "normalise.two_pass", "normalise.three_pass", "normalise.five_pass",
                      "normalise.order_truncate_average", "sped", "tones", "shape", "tracks", "faint", "chain"], stages
    for r in data["results"]:
        assert FIELDS <= r.keys(), FIELDS - r.keys()
        assert 0 < r["min_ns"] <= r["median_ns"] <= r["p99_ns"] and r["repetitions"] >= 3
        assert r["flop"] > 0 and r["bytes"] > 0 and r["host_bytes"] == 0 and r["backend"] == "cpu"
        assert r["floor_ns"] is None and r["bound"] is None
        assert 0 < r["processor_ns"] < 100 * r["p99_ns"], r
    error = {r["stage"]: r["error_db"] for r in data["results"]}
    assert 0 <= error["cbf.lofar"] < 0.01 and 0 <= error["mvdr"] < 0.05, error
    lapack(peers, data["results"])
    # in snapshot space, too: half as many snapshots as sensors
    small = bench(*SMALL[:-1], 4)["results"]
    lapack([r for r in small if r["backend"] == "peer"], small)
    # with full rank also the rule trace, which needs no eigenvalues
    full = bench("--case", "full-64", "--max-time", 1e-9)["results"]
    assert all(r["repetitions"] == 1 for r in full), full  # each takes longer than --max-time
    lapack([r for r in full if r["backend"] == "peer"], full)
    trace = next(r for r in full if r["stage"] == "mvdr.trace")
    assert 0 <= trace["error_db"] < 1e-5 and trace["peer_ratio"].keys() == {"peer.zheevd", "peer.zpotrf"}, trace
    # the standard case's count: 259 360 complex multiply-adds a sensor, and 3 flop for each power
    standard = bench("--case", "standard", "--max-time", 0.01)["results"]
    whole = next(r for r in standard if r["stage"] == "cbf.all")
    assert whole["flop"] == 259360 * (8 * 128 + 3), whole["flop"]
    # several snapshots of a plane: only the surface
    plane, = bench("--case", "snapshots-2048", "--max-time", 0.01)["results"]
    assert plane["stage"] == "cbf.snapshots" and plane["parameters"]["snapshots"] == 16, plane
    assert plane["flop"] == 16 * 459 * 160 * (8 * 2048 + 3) and plane["error_db"] < 0.01, plane


def lapack(peers, results):
    """Compared with MVDR, if the library is installed; the tests need it."""
    assert [r["stage"] for r in peers] == ["peer.zheevd", "peer.zheevd.zpotrf", "peer.zpotrf"], peers
    ratio = next(r for r in results if r["stage"] == "mvdr")["peer_ratio"]
    for r in peers:
        assert FIELDS <= r.keys() and r["median_ns"] > 0 and 0 <= r["error_db"] < 1e-5, r
        assert re.fullmatch(r"OpenBLAS [0-9]\S* \S+|LAPACK", r["implementation"]), r["implementation"]
        assert ratio[r["stage"]] > 0, ratio


def first_rows(process, file):
    """Stages in the file as soon as it has any; none if they do not come."""
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
        try:
            stages = [r["stage"] for r in json.loads(file.read_text())["results"]]
        except (FileNotFoundError, ValueError):  # missing yet, or half written
            continue
        if stages:
            return stages
    return []


def cut_short():
    """A row is in the file before it is told: a program that waits to say its first has nothing else there, and
    its results stay when it is killed."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "report.json"
        reader, writer = full_pipe()
        with subprocess.Popen([binaries / "sonar-bench", *map(str, SMALL), "--json", file], stdout=writer,
                              stderr=subprocess.DEVNULL) as process:
            os.close(writer)
            stages = first_rows(process, file)
            process.kill()
        os.close(reader)
        assert stages == ["dft"], stages
        assert [r["stage"] for r in json.loads(file.read_text())["results"]] == stages


def thesis_rows():
    row = next(r for r in bench("--case", "rates-2000", "--max-time", 0.01)["results"]
               if r["stage"] == "dft")
    assert (row["thesis_table"], row["thesis_cuda_ms"]) == ("6.7", 2.289), row
    assert row["parameters"]["sensors"] == 512 and row["parameters"]["length"] == 2048
    rows = {r["stage"]: r for r in bench("--case", "jacobi-64", "--max-time", 0.01)["results"]}
    assert rows["mvdr"]["thesis_table"] == "6.15", rows["mvdr"]
    assert rows["mvdr"]["error_db"] < 1e-4 and rows["mvdr.looks"]["median_ns"] > 0, rows
    # a stream begins from the last vectors, a whole block from nothing
    assert 2 < rows["mvdr"]["sweeps"] < rows["mvdr.anew"]["sweeps"], rows
    # a whole block after a reset
    rows = {r["stage"]: r for r in bench("--case", "block-128", "--max-time", 0.01)["results"]}
    anew = 100 * (8 * 128 * 64 * (65 / 2 + 180) + 20 / 3 * 64**3 + 4 * 180 * 64**2)
    assert abs(rows["mvdr.anew"]["flop"] / anew - 1) < 1e-12, (rows["mvdr.anew"], anew)
    names = run(binaries / "sonar-bench", "--list").stdout.split("\n")
    for family, count in (("sensors", 9), ("bins", 10), ("angles", 8), ("rates", 10),
                          ("snapshots", 2), ("jacobi", 6), ("onebin", 3)):
        assert sum(n.startswith(family + "-") for n in names) == count, family


def refusals():
    for wrong in "sensor", "mvdr,nope", "block-2621":
        assert "there is no case" in run(binaries / "sonar-bench", "--case", wrong, ok=False).stderr
    for kind in (), ("live",), ("ranks",):  # before anything is measured
        assert "/dev/full" in run(binaries / "sonar-bench", *kind, "--json", "/dev/full", ok=False).stderr
    assert "--backend" in run(binaries / "sonar-bench", "--backend", "gpu", ok=False).stderr


def synthetic():
    """A GPU's file as written by the program, with round figures."""
    data = bench(*SMALL)
    first = data["results"][0]
    data["gpu"] = {"description": "Synthetic GPU, 1 GiB", "name": "Synthetic GPU", "driver_cuda": "13.0",
                   "runtime_cuda": "13.0", "l2": 2**20, "sm_clock_mhz": None}
    data["ceilings"] = {"fma_flops": 6e13, "memory_bytes_per_s": 4e12,
                        "host_to_device_bytes_per_s": 5e10, "device_to_host_bytes_per_s": None}
    minute = copy.deepcopy(first) | {
        "case": "sensors-16384", "backend": "cuda", "stage": "minute", "median_ns": 602300000,
        "floor_ns": 301150000, "share_of_floor": 0.5, "bound": "pcie", "thesis_table": "6.8",
        "thesis_cuda_ms": 36140, "thesis_serial_ms": 4241820, "goal_ms": 700,
        "peer_ratio": {"peer.h2d.s16": 0.75}}
    peer = copy.deepcopy(first) | {"case": "sensors-16384", "backend": "peer", "stage": "peer.h2d.s16",
                                   "implementation": "copy"}
    data["results"] = [minute, peer]
    data["left_out"] = [{"case": "sensors-32768", "where": "cuda", "why": "out of memory"}]
    return data


def ingest():
    """A row for each layout and number of threads, with times even in a short run; no file is left."""
    before = set(pathlib.Path("/tmp").iterdir())
    process = subprocess.Popen([binaries / "sonar-bench", "--ingest=2048", "--min-time", "0"], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    text, errors = process.communicate(timeout=HANG_S)
    assert process.returncode == 0 and not errors, errors
    rows = [line.split() for line in text.splitlines()[2:]]
    assert [(r[1], r[2]) for r in rows] == [(layout, threads) for layout in ("channel-major", "interleaved")
                                            for threads in "124"], text
    assert all(0 < float(r[column]) < 1e6 for r in rows for column in (3, 5, 7)), text
    left = set(pathlib.Path("/tmp").glob(f"*-{process.pid}")) - before
    assert not left, left


FEW = ["--sensors", 24, "--snapshots", 16, "--mvdr-bins", 5, "--repetitions", 4, "--min-time", 0]


def full_pipe():
    """A pipe that blocks its writer until it is read."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    for size in 4096, 1:
        try:
            while True:
                os.write(writer, bytes(size))
        except BlockingIOError:
            pass
    os.set_blocking(writer, True)
    return reader, writer


def lost_report(program):
    """A report that can be written when the measurement begins, and no longer at its end, is an error:
    its folder is renamed while the program waits to print its results."""
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder) / "place"
        file = place / "report.json"
        place.mkdir()
        reader, writer = full_pipe()
        with subprocess.Popen([str(w) for w in (program, "ranks", "--case", "full", "--json", file, *FEW)],
                              text=True, stdout=writer, stderr=subprocess.PIPE) as process:
            os.close(writer)
            while not file.exists() and process.poll() is None:
                time.sleep(0.01)
            place.rename(pathlib.Path(folder) / "elsewhere")
            with open(reader, "rb") as pipe:
                text = pipe.read()
            errors = process.stderr.read()
    assert b"full, 24 sensors" in text, (text[-200:], errors)
    assert process.returncode == 1 and "cannot be written" in errors, (process.returncode, errors)


def ranks():
    """Two ranks and one: the surfaces are the same, and the exchanged bytes follow from the sizes."""
    program = binaries / "sonar-bench"
    if not shutil.which("mpirun") or not (binaries.parent / "lib" / "libsonar-bench-mpi.so").exists():
        print("ranks: skipped: there is no mpirun, or no MPI plugin was built")
        return
    done = subprocess.run([program, "ranks", "--json", "/no/such"], capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 2 and "/no/such" in done.stderr, done
    lost_report(program)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "ranks.json"
        done = subprocess.run(["mpirun", "--oversubscribe", "-n", "2", program, "ranks", "--json", file,
                               *map(str, FEW)], capture_output=True, text=True, timeout=HANG_S,
                              env=os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "TMPDIR": folder,
                                                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
        data = json.loads(file.read_text())
    assert data["schema"] == "sonar-bench/1" and "Open MPI" in data["mpi"], data
    rows = {r["case"]: r for r in data["ranks"]}
    assert list(rows) == ["full", "full-trace", "block", "beams"], list(rows)
    assert [r.get("loading") for r in rows.values()] == ["noise", "trace", "noise", None], rows
    for r in rows.values():
        assert r["ranks"] == 2 and 0 <= r["worst_db"] < 0.01, r
        assert math.isclose(r["speedup"], r["one"]["median_ns"] / r["several"]["median_ns"], rel_tol=1e-6), r
        assert all(t["repetitions"] == 4 for t in (r["one"], r["several"])), r
        assert all(c["median_ns"] > 0 and c["plain_ns"] > 0 for c in r["crossings"]), r
        assert r["crossing_bytes"] == sum(c["bytes"] for c in r["crossings"]), r
    # one new snapshot of 5 bins, of which a rank keeps its own share
    for name in "full", "full-trace":
        exchange, = (c for c in rows[name]["crossings"] if c["call"] == "exchange")
        assert exchange["bytes"] == 8 * 12 * 5, exchange
    # the whole surface of complex beams, and seven ranges of the CBF's
    assert [c["bytes"] for c in rows["beams"]["crossings"]] == [8 * 459 * 160, 8 * 166 * 7 * 160]
    assert "no case 'half'" in run(program, "ranks", "--case", "half", ok=False).stderr


def two_starts():
    """Results of two GPUs in two starts of a machine, with round figures: the second misses a goal."""
    first = synthetic() | {"results": [], "left_out": [], "mpi": "Open MPI v4.1.6", "without_peers": ""}
    del first["ceilings"]
    parts = [{"call": "share", "bytes": 2, "median_ns": 4000, "plain_ns": 2000},
             {"call": "exchange", "bytes": 390400, "median_ns": 106000, "plain_ns": 98000}]
    full = {"case": "full", "backend": "cuda", "ranks": 2, "worst_db": 2e-5,
            "parameters": {"sensors": 2048, "snapshots": 4096}, "one": {"median_ns": 200000000},
            "several": {"median_ns": 100000000}, "speedup": 2.0, "goal_speedup": 1.9, "crossings": parts,
            "crossing_bytes": 390402, "crossing_ns": 110000, "plain_ns": 100000}
    beams = copy.deepcopy(full) | {"case": "beams", "crossings": [], "crossing_bytes": 0, "plain_ns": None}
    del beams["goal_speedup"]
    alone = {"case": "block", "backend": "cuda", "ranks": 1, "parameters": {}, "one": {"median_ns": 1}}
    first["ranks"] = [full, beams, alone]
    second = copy.deepcopy(first)
    second["date"] = "2026-01-31T20:00:00Z"
    second["ranks"] = [copy.deepcopy(full) | {"several": {"median_ns": 125000000}, "speedup": 1.6, "crossing_ns": 130000}]
    return first, second


def pages_of_ranks():
    with tempfile.TemporaryDirectory() as folder:
        first, second = two_starts()
        data_folder = pathlib.Path(folder) / "data"
        data_folder.mkdir()
        files = [data_folder / name for name in ("two-gpus-2026-01-31.json", "ranks-two-gpus-full-again-2026-01-31.json")]
        for file, data in zip(files, (first, second)):
            file.write_text(json.dumps(data))
        run(maker, files[0])
        text = (pathlib.Path(folder) / "two-gpus.md").read_text()
        for expected in ("# 2 x Synthetic GPU", "## Several ranks", "Start 1, Open MPI v4.1.6:",
                         "Start 2, Open MPI v4.1.6:\nMeasured 2026-01-31T20:00:00Z",
                         "| `full` | 1 | cuda | 2048 | 4096 | 2 | 200 | 100 | 2.00 | 1.9 | yes | 2e-05 |",
                         "| `full` | 2 | cuda | 2048 | 4096 | 2 | 200 | 125 | 1.60 | 1.9 | **no** | 2e-05 |",
                         "| `beams` | 1 | cuda | 2048 | 4096 | 2 | 200 | 100 | 2.00 | - | - | 2e-05 |",
                         "| `full` | 1 | share | 2 | 4.0 | 2.0 | 2.00 | - | - |",
                         "| `full` | 1 | all | 390402 | 110.0 | 100.0 | 1.10 | 1.2 | yes |",
                         "| `full` | 2 | all | 390402 | 130.0 | 100.0 | 1.30 | 1.2 | **no** |",
                         "| `beams` | 1 | all | 0 | 110.0 | - | - | 1.2 | - |"):
            assert expected in text, (expected, text)
        assert "`block`" not in text, text  # it ran on only one rank
        run(maker, "--check", files[0])
        files[1].unlink()
        run(maker, "--check", files[0], ok=False)


def pages():
    with tempfile.TemporaryDirectory() as folder:
        data_folder = pathlib.Path(folder) / "data"
        data_folder.mkdir()
        file = data_folder / "fast-gpu-2026-01-31.json"
        file.write_text(json.dumps(synthetic()))
        (pathlib.Path(folder) / "notes-fast-gpu.md").write_text("## What was tried\n\nMuch.\n")
        run(maker, file)
        target = pathlib.Path(folder) / "fast-gpu.md"
        text = target.read_text()
        for expected in ("# Synthetic GPU", "| 700 | 602 | yes | 301 | 50 % | PCIe |", "60x",
                         "### Table 6.8", "0.75x", "out of memory", "60.0 TFLOP/s", "## What was tried"):
            assert expected in text, (expected, text)
        run(maker, "--check", file)
        assert "## A second start" not in text, text
        again = synthetic()
        again["results"] = [again["results"][0] | {"median_ns": 903450000}]
        (data_folder / "again-fast-gpu-2026-01-31.json").write_text(json.dumps(again))
        run(maker, "--check", file, ok=False)
        run(maker, file)
        text = target.read_text()
        assert "| `sensors-16384` | minute | 602 | 903 | 1.50 |" in text, text
        assert "peer.h2d.s16 |" not in text[text.index("## A second start"):], text  # it ran once
        target.write_text(text.replace("602", "502"))
        run(maker, "--check", file, ok=False)
    published = sorted((source / "docs" / "benchmarks" / "data").glob("*-20??-??-??.json"))
    assert published, "docs/benchmarks/data has no figures"
    for file in published:
        if not file.name.startswith(("live-", "ranks-", "again-")):  # part of another's page
            run(maker, "--check", file)


FAKE = """#!/usr/bin/python3
import json, pathlib, sys
own = pathlib.Path(__file__).parent.parent
with open(own.parent / "order", "a") as order:
    order.write(f"{own.name} {sys.argv[1]}\\n")
live = sys.argv[1] == "live"
side = pathlib.Path(sys.argv[sys.argv.index("--daemon") + 1]).parent.parent if live else own
reports = json.loads((side / "reports.json").read_text())["live" if live else "stages"]
count = side / ("live_turn" if live else "stages_turn")
turn = int(count.read_text()) if count.exists() else 0
count.write_text(str(turn + 1))
if reports[turn] is None:
    sys.exit("there is no such case")
pathlib.Path(sys.argv[sys.argv.index("--json") + 1]).write_text(json.dumps(reports[turn]))
"""


def stages_report(**ms):
    return {"commit": "0123456789ab", "machine": {"cpu": "Synthetic", "cores": 2, "compiler": "gcc 0"},
            "results": [{"case": "c", "stage": stage, "min_ns": value * 1e6,
                         "backend": "peer" if stage == "peer" else "cpu"} for stage, value in ms.items()]}


def live_report(own_ms, held=True, processors=1.0):
    spread = {"p50": own_ms, "p99": own_ms and 2 * own_ms}
    return {"commit": "0123456789ab", "live": [
        {"case": "latency", "parameters": {"sensors": 128}, "held": held, "latency_ms": spread,
         "daemon_latency_ms": spread,
         "daemon": {"cpu_s_per_s": processors, "peak_resident_bytes": 3e9}}]}


def compared(old, new, *arguments):
    """scripts/compare of two synthetic builds: its exit code, output and messages, and the order of measurements."""
    with tempfile.TemporaryDirectory() as folder:
        sides = [pathlib.Path(folder) / name for name in ("old", "new")]
        for side, reports in zip(sides, (old, new)):
            (side / "bin").mkdir(parents=True)
            (side / "bin" / "sonard").touch()
            (side / "bin" / "sonar-bench").write_text(FAKE)
            (side / "bin" / "sonar-bench").chmod(0o755)
            (side / "reports.json").write_text(json.dumps(reports))
        done = subprocess.run([source / "scripts" / "compare", *sides, "--only", "stages", "--only", "latency",
                               *arguments], capture_output=True, text=True, timeout=HANG_S)
        return done.returncode, done.stdout, done.stderr, (pathlib.Path(folder) / "order").read_text().splitlines()


def comparison():
    """Ratios are of neighbours in time, with their spread; what is worse in every turn is marked, and so is what a side
    lacks."""
    old = {"stages": [stages_report(dft=1, cbf=1, far=2, gone=1, peer=1), stages_report(dft=2, cbf=1, far=2, gone=1),
                      stages_report(dft=4, cbf=1, far=2, gone=1)],
           "live": [live_report(1), live_report(1), live_report(1)]}
    new = {"stages": [stages_report(dft=1.2, cbf=1, far=1, fresh=5, peer=9),
                      stages_report(dft=2.6, cbf=1.3, far=1, fresh=5), stages_report(dft=6, cbf=1.2, far=1, fresh=5)],
           "live": [live_report(1.05), None, live_report(1.05)]}
    code, text, errors, order = compared(old, new, "--turns", "3")
    assert code == 1, (code, text, errors)
    for expected in ("Old: commit `0123456789ab`, gcc 0, on Synthetic, 2 cores.", "On cpu, 3 turns; ",
                     "| `c` dft, ms | 2 | 2.6 | 1.30 | 1.20 to 1.50 | **worse** |",
                     "| `c` cbf, ms | 1 | 1.2 | 1.20 | 1.00 to 1.30 | worse, within the spread |",
                     "| `c` far, ms | 2 | 1 | 0.50 | 0.50 to 0.50 | better |",
                     "| `c` fresh, ms | - | 5 | - | - | not in old |",
                     "| `c` gone, ms | 1 | - | - | - | not in new |",
                     "| `latency` of 128: the daemon's own, p50, ms | 1 | 1.05 | 1.05 | 1.05 to 1.05 | 2 of 3 turns |",
                     "| `latency` of 128: the daemon's own, p99, ms | 2 | 2.1 | 1.05 | 1.05 to 1.05 | 2 of 3 turns |",
                     "| `latency` of 128: memory, GB | 3 | 3 | 1.00 | 1.00 to 1.00 | 2 of 3 turns |",
                     "| `latency` of 128: held | 3 of 3 | 2 of 2 | - | - |  |"):
        assert expected in text, (expected, text)
    assert "peer" not in text and "there is no such case" in errors, (text, errors)
    # in turns; both daemons by the new program
    stages, live = ["old --threads", "new --threads"], ["new live", "new live"]
    assert order == stages + live + stages[::-1] + live + stages + live, order
    # a spread on both sides of the mark is none; a run that is held no more is
    old = {"stages": [stages_report(dft=1)] * 2, "live": [live_report(1)] * 2}
    new = {"stages": [stages_report(dft=1.05), stages_report(dft=1.5)], "live": [live_report(1)] * 2}
    assert compared(old, new, "--turns", "2")[0] == 0
    new["live"] = [live_report(None, held=False)] * 2
    code, text, _, _ = compared(old, new, "--turns", "2")
    assert code == 1 and "| `latency` of 128: held | 2 of 2 | 0 of 2 | - | - | **worse** |" in text, (code, text)
    assert "| `latency` of 128: the daemon's own, p50, ms | 1 | - | - | - | not in new |" in text, text
    nothing = {"stages": [None], "live": [None]}
    assert compared(nothing, nothing, "--turns", "1")[0] == 2
    assert run(source / "scripts" / "compare", "no-such-commit", "HEAD", ok=False).returncode == 2


for test in (schema, cut_short, thesis_rows, refusals, ingest, ranks, pages_of_ranks, pages, comparison):
    test()
    print(f"{test.__name__}: ok")

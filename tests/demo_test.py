#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The demonstration and the simulator send only to the right daemon, beside another running daemon.
demo_test.py SOURCE BINARIES. Exit 77: skipped."""
import json
import pathlib
import subprocess
import sys
import tempfile
import time

source, binaries = (pathlib.Path(name).resolve() for name in sys.argv[1:3])

ARRAY = """schema: 1
array: {{id: 1, name: {name}, geometry: {{line: {{sensors: 32, spacing_m: 0.75}}}}, gain_db: 0, heading_deg: 30}}
sound_speed_mps: 1500
fs_hz: {fs_hz}
ingest: {{endpoints: ["ipc://{folder}/in"]}}
dft: {{length: 2048, hop: 1024}}
cbf: {{band_hz: [600, 950], ranges_m: []}}
mvdr: {{band_hz: [600, 950], length: 512, hop: 256, snapshots: 64}}
output: {{endpoint: "ipc://{folder}/out"}}
control: {{endpoint: "ipc://{folder}/control"}}
runtime: {{threads: 1}}
"""


def run(program, *arguments, **options):
    return subprocess.run([str(program), *map(str, arguments)], capture_output=True, text=True, timeout=300, **options)


def status(config):
    answer = run(binaries / "sonarctl", "--config", config, "--json", "--timeout", 60, "status")
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)["status"]


def operate(config):
    daemon = subprocess.Popen([binaries / "sonard", config], stderr=subprocess.PIPE, text=True)
    for line in daemon.stderr:
        if "running; waiting for samples" in line:
            return daemon
    raise AssertionError("the daemon does not run")


def try_demo(config):
    """The demonstration's samples reach only its own daemon; a short run is judged, too."""
    demo = run(source / "scripts/demo", "--bin", binaries, "--config", config, "--seconds", 1,
               "--scene", source / "config/scenes/one-source.yaml")
    assert demo.returncode == 0 and "All within tolerance" in demo.stdout, demo.stdout + demo.stderr
    operated = status(config)
    assert operated["frames"]["received"] == 0 and operated["waiting"], operated["frames"]


def simulation(config):
    return subprocess.Popen([binaries / "sonar-sim", "--config", config, "--scene",
                             source / "config/scenes/one-source.yaml", "--duration", "0.5"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(simulation):
    out, err = simulation.communicate(timeout=300)
    return simulation.returncode, out, err


def try_simulator(folder, config):
    """The simulator prints its receiver, and does not send to a daemon with another configuration at the endpoints."""
    elsewhere = folder / "elsewhere.yaml"
    elsewhere.write_text(config.read_text().replace(f"{folder}/out", f"{folder}/elsewhere"))
    stranger = simulation(elsewhere)  # waits half a minute for the status
    for name, fs_hz in (("stern", 8000), ("bow", 4000)):
        other = folder / "other.yaml"
        other.write_text(ARRAY.format(folder=folder, name=name, fs_hz=fs_hz))
        code, _, err = end(simulation(other))
        assert code == 2 and f"array 'bow' at 8000 Hz, but the configuration has '{name}'" in err, err
    code, _, err = end(stranger)
    assert code == 2 and f"receiver at ipc://{folder}/in is not the daemon of this configuration" in err, err
    code, out, err = end(simulation(config))
    assert code == 0 and f"sending to sonard of the array 'bow' at ipc://{folder}/in" in err, err
    sent, until = json.loads(out)["frames"], time.monotonic() + 60
    while status(config)["frames"]["received"] < sent and time.monotonic() < until:
        time.sleep(0.1)
    assert status(config)["frames"]["received"] == sent, "nothing of those that were refused"


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    config = folder / "bow.yaml"
    config.write_text(ARRAY.format(folder=folder, name="bow", fs_hz=8000))
    daemon = operate(config)
    try:
        try_demo(config)
        try_simulator(folder, config)
    finally:
        daemon.terminate()
        daemon.communicate()

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the commands of README.md, CONTRIBUTING.md and docs/*.md as a reader would type them.
pages_test.py SOURCE BINARIES [PAGE...]. Exit 77: skipped.

Every fenced block names its language. A page's blocks run in order, in one shell with the programs on its PATH, in a
checkout and an /etc/sonard of its own, with a network of its own; processes that still run are ended after the page,
and have to exit cleanly. In a block
    sh          each line is run and has to succeed
    console     the same for lines after "$ "; other lines are the output, with any numbers, and "..." for any text
    python, c   is a program; if it prints, it has to print a line
    yaml        is a part of a configuration, or of a file that it names; it has to be valid with the installed one
    js          is a script in a browser, which another test runs
    text, ...   is shown only
Words after the language mark exceptions:
    run-by: FILE                another test runs the block
    no-ci: REASON[; FILE]       CI cannot run it; FILE, if given, tests the same elsewhere
A command with "# q quits" or "# ctrl-c quits" is ended after its first line of output."""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

try:
    import numpy  # noqa: F401
    import yaml
    import zmq  # noqa: F401
except ImportError as missing:
    print(f"skipped: examples on the pages need python3-numpy, python3-zmq and python3-yaml ({missing})")
    sys.exit(77)

source, binaries = (pathlib.Path(name).resolve() for name in sys.argv[1:3])
pages = ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{page.name}" for page in (source / "docs").glob("*.md"))]
RUN, SHOWN, ELSEWHERE = ("sh", "console", "python", "c", "yaml"), ("text", "ini", "json"), ("js",)
OWN_NETWORK = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--net", "--pid", "--fork", "--kill-child"]
LONGEST_S, MOST_MESSAGES = 5, 2  # for programs that would run for longer
AT_ONCE = 3  # pages: they wait for samples most of their time

# State before a page's first command, which the page describes in words.
NODE = """
sonard /etc/sonard/sonard.yaml &
until sonarctl version; do kill -0 $!; sleep 0.1; done >/dev/null
"""
FED_NODE = NODE + "sonar-sim -c /etc/sonard/sonard.yaml -s /usr/share/sonard/scenes/one-source.yaml &\n"
RECORDS = """
for what in raw spectra; do
    sed 's/name: array-1/name: bow/' /etc/sonard/sonard.yaml >bow.yaml
    echo "record: {what: $what, directory: /srv/sonar}" >>bow.yaml
    sonard bow.yaml &
    sonar-sim -c bow.yaml -s /usr/share/sonard/scenes/one-source.yaml --rate max --duration 4 --utc 2026-01-02T03:04:05.678Z
    kill $!
    wait $!
done
for file in /srv/sonar/bow-*; do # named by the time when they began
    mv $file /srv/sonar/bow-20260102T030405.678Z.${file##*Z.}
done
sed -i 's/spectra, /raw, at_start: false, /' bow.yaml
cp bow.yaml /etc/sonard/sonard.yaml
"""
SOUNDS = """
sonar-sim -c /etc/sonard/sonard.yaml -s /usr/share/sonard/scenes/one-source.yaml --duration 4 --file sea.f32
sonar-export sea.f32 dive.wav
/usr/bin/python3 - <<'END'
import json, numpy
about = json.load(open("sea.json"))
sea = numpy.fromfile("sea.f32", "<f4").reshape(-1, about["channels"])
for i, half in enumerate(numpy.split(sea, 2, axis=1), 1):
    half.tofile(f"recorder-{i}.f32")
    side = {"channels": half.shape[1], "frames": len(half), "sample_rate_hz": about["sample_rate_hz"]}
    json.dump({**side, "format": "little-endian float32, sample-interleaved"}, open(f"recorder-{i}.json", "w"))
END
for i in 1 2; do sonar-export recorder-$i.f32 recorder-$i.wav; done
"""
BEFORE = {
    "README.md": "sonar-sim -c config/demo.yaml -s config/scenes/demo.yaml &",
    "docs/beams.md": "echo 'beam: {az_deg: [71, 110], bearing_deg: [130], track: [7]}' >>/etc/sonard/sonard.yaml" + FED_NODE,
    "docs/feed.md": SOUNDS + NODE,
    "docs/control.md": "echo 'record: {what: raw}' >>/etc/sonard/sonard.yaml" + NODE,
    "docs/recording.md": RECORDS + NODE, "docs/recordings.md": SOUNDS, "docs/node.md": NODE, "docs/reading.md": FED_NODE, "docs/viewer.md": FED_NODE,
    "docs/normalised.md": FED_NODE, "docs/sped.md": FED_NODE, "docs/tracks.md": FED_NODE,
}

PROLOGUE = """
set -eo pipefail
ip link set lo up
ip address add 192.168.10.1/24 dev lo
leaves() { # COMMAND...: shows its first line, then asks it to end; how it ended
    local line status=0
    exec 4< <(exec "$@")
    local pid=$!
    IFS= read -r line <&4 || { echo "nothing printed: $*" && return 1; }
    echo "$line"
    kill $pid
    cat <&4
    wait $pid || status=$?
    return $status
}
prints() { leaves "$@" || [ $? -eq 143 ]; } # a program without a handler
"""
EPILOGUE = """
printf '\\n@@\\n'
for pid in $(jobs -p); do
    kill $pid 2>/dev/null || true
    status=0
    wait $pid || status=$?
    # A program that has just begun does not handle SIGTERM yet.
    [[ $status =~ ^(0|143)$ ]] || { echo "a background program ended with $status" && exit 1; }
done
"""


class Block:
    def __init__(self, page, line, info, text):
        self.page, self.line, self.text = page, line, text
        self.language, _, self.note = info.partition(" ")
        self.place = f"{page}:{line}"


def blocks_of(page):
    text = (source / page).read_text()
    found = [Block(page, text[:at.start()].count("\n") + 1, at[1], at[2])
             for at in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.M | re.S)]
    assert 2 * len(found) == len(re.findall(r"```|~~~", text)), f"{page}: a fence is not at the beginning of its line"
    return found


def programs_of(block):
    return {pathlib.Path(line.split()[0]).name for line in block.text.splitlines() if line[:1] not in ("", "#", " ")}


def runs(block):
    """Whether the block runs here; the reason against it has to be in the right form."""
    known = RUN + SHOWN + ELSEWHERE
    assert block.language in known, f"{block.place}: the block's language is '{block.language}', none of {known}"
    if not block.note and block.language not in ELSEWHERE:
        return block.language in RUN
    note = re.fullmatch(r"run-by: (?P<by>\S+)|no-ci: [^;]+(; (?P<tries>\S+))?", block.note)
    assert note and block.language not in SHOWN, f"{block.place}: '{block.note}' is neither run-by: FILE nor no-ci: REASON[; FILE]"
    file = note["by"] or note["tries"]
    assert not file or (source / file).is_file(), f"{block.place}: there is no {file}"
    told = (source / file).read_text() if note["by"] else block.page
    assert block.page in told or block.language == "sh" and all(program in told for program in programs_of(block)), (
        f"{block.place}: {file} names neither this page nor all of its programs")
    print(f"{block.place}: {block.note}")
    return False


def shortened(command):
    for options, most in (("seconds|duration", LONGEST_S), ("count", MOST_MESSAGES)):
        command = re.sub(rf"(--(?:{options})) (\d+)", lambda m: f"{m[1]} {min(int(m[2]), most)}", command)
    return command


def here(text, folder):
    """Replaces the machine's folders by those of the test."""
    return re.sub(r"(?<![\w.~])/(etc|run|srv|tmp|usr/share|var/lib)/", rf"{folder}/\1/", text)


def lines_of(block):
    """The commands of a block, each with the output that it should have."""
    if block.language == "sh":
        return [(block.text, [])]
    said = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            said.append((line[2:] + "\n", []))
        else:
            said[-1][1].append(line)
    return said


def pattern(line):
    """Pattern of a line of output: numbers match any number, three dots any text."""
    parts = re.split(r"(\.\.\.|[-+]?\d[\d.]*)", line)
    return "".join(re.escape(part) if i % 2 == 0 else ".*" if part == "..." else r"[-+]?[\d.]+"
                   for i, part in enumerate(parts))


def expect_output(block, command, wanted, said):
    left = iter(said)
    for line in wanted:
        assert any(re.match(pattern(line), got) for got in left), (
            f"{block.place}: '{command.strip()}' did not print '{line}', but:\n" + "\n".join(said))


def program_of(block, number, folder):
    """Commands that run an example."""
    name = f"{folder}/example-{number}"
    code = here(block.text, folder)
    if block.language == "python":
        pathlib.Path(f"{name}.py").write_text(code)
        return f"prints /usr/bin/python3 -u {name}.py" if "while True" in code or "for s in" in code \
            else f"/usr/bin/python3 {name}.py"
    pathlib.Path(f"{name}.c").write_text(code)
    compiled = f"cc -Wall -Werror -o {name} {name}.c -lzmq"
    return f"{compiled}\nprints stdbuf -oL {name}" if "int main" in code else compiled.replace("-o", "-c -o")


def merged(base, part):
    """The part's options replace those of the base; a geometry replaces any other geometry."""
    both = {key for key in part if isinstance(part[key], dict) and isinstance(base.get(key), dict) and key != "geometry"}
    return {**base, **part, **{key: merged(base[key], part[key]) for key in both}}


def settings_of(block, number, folder):
    """A command by which the daemon or the simulator checks the options."""
    part, name = yaml.safe_load(here(block.text, folder)), f"{folder}/example-{number}.yaml"
    node = yaml.safe_load((folder / "etc/sonard/sonard.yaml").read_text())
    if "sources" in part:
        pathlib.Path(name).write_text(here(block.text, folder))
        return f"sonar-sim -c {source}/config/demo.yaml -s {name} --duration 0.1 --file {name}.f32"
    if "scrape_configs" in part:
        shutil.copy(source / "config/metrics/alerts.yaml", folder)
        pathlib.Path(name).write_text(block.text)
        return f"! command -v promtool >/dev/null || promtool check config {name}"
    if "hydrophone" in part.get("array", {}):
        node["array"].pop("gain_db")
    pathlib.Path(name).write_text(yaml.safe_dump(merged(node, part)))
    return f"sonard --check-config {name}"


def make_place(folder):
    """A checkout, and the files of an installation in the machine's folders."""
    checkout = folder / "checkout"
    (checkout / "build/release").mkdir(parents=True)
    (checkout / "build/release/bin").symlink_to(binaries)
    for name in ("config", "docs", "scripts", "tools"):
        (checkout / name).symlink_to(source / name)
    for name in ("etc/sonard/keys", "run/sonard", "srv/sonar", "tmp", "usr/share/sonard", "var/lib/sonard"):
        (folder / name).mkdir(parents=True)
    (folder / "etc/sonard/sonard.yaml").write_text(here((source / "config/node.yaml").read_text(), folder))
    (folder / "usr/share/sonard/scenes").symlink_to(source / "config/scenes")
    # The control socket at sonarctl's default, except for the folder.
    wrapper = folder / "bin/sonarctl"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec {binaries}/sonarctl -e ipc://{folder}/run/sonard/control "$@"\n')
    wrapper.chmod(0o755)
    return checkout


def script_of(page, blocks, folder):
    """A shell's script, in which "@@" comes before each command's output, and what each should be."""
    script, wanted = [PROLOGUE, here(BEFORE.get(page, ""), folder)], []
    for number, block in enumerate(blocks):
        if block.language in ("sh", "console"):
            commands = [(here(shortened(command), folder), output) for command, output in lines_of(block)]
        elif block.language == "yaml":
            commands = [(settings_of(block, number, folder), [])]
        else:
            commands = [(program_of(block, number, folder), [])]
        for command, output in commands:
            script.append(r"printf '\n@@\n'")  # a program that was ended may have left half a line
            script.append(re.sub(r"^(.*)# (?:q|ctrl-c) quits.*$", r"leaves \1", command, flags=re.M))
            wanted.append((block, command, output))
    return "\n".join(script) + EPILOGUE, wanted


def run_page(page, blocks):
    with tempfile.TemporaryDirectory(prefix="page") as name:
        folder = pathlib.Path(name)
        checkout = make_place(folder)
        script, wanted = script_of(page, blocks, folder)
        begun = time.monotonic()
        shell = subprocess.Popen(
            [*OWN_NETWORK, "bash", "-c", script], cwd=checkout, text=True, errors="replace", stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=open(folder / "log", "w"),
            env={**os.environ, "PATH": f"{folder}/bin:{binaries}:{os.environ['PATH']}", "PYTHONPATH": "tools/python",
                 "SONAR_LIBRARY": str(binaries.parent / "lib/libsonar.so.0"),
                 "RUNTIME_DIRECTORY": f"{folder}/run/sonard", "STATE_DIRECTORY": f"{folder}/var/lib/sonard",
                 "MPLCONFIGDIR": name})
        try:
            said, _ = shell.communicate(timeout=240)
        except subprocess.TimeoutExpired:
            shell.kill()
            said, _ = shell.communicate()
        parts = re.split(r"^@@\n", said, flags=re.M)[1:]  # the output of each command, and of the end
        where = wanted[len(parts) - 1][0].place if 0 < len(parts) <= len(wanted) else f"{page}, begin or end"
        assert shell.returncode == 0 and len(parts) == len(wanted) + 1, (
            f"{where}: ended with {shell.returncode}:\n" +
            "\n".join(said.splitlines()[-30:] + (folder / "log").read_text().splitlines()[-30:]))
        for (block, command, output), text in zip(wanted, parts):
            expect_output(block, command, output, text.removesuffix("\n").splitlines())
        print(f"{page}: {len(wanted)} commands and blocks ran, {time.monotonic() - begun:.1f} s", flush=True)


def main():
    todo = {page: [block for block in blocks_of(page) if runs(block)] for page in pages}
    if subprocess.run([*OWN_NETWORK, "ip", "link", "set", "lo", "up"], stderr=subprocess.DEVNULL).returncode:
        print("skipped: the pages' commands want a network namespace each, which cannot be made here")
        sys.exit(77)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        running = [pool.submit(run_page, page, blocks) for page, blocks in todo.items()
                   if blocks and (not sys.argv[3:] or page in sys.argv[3:])]
    for page in running:
        page.result()


main()

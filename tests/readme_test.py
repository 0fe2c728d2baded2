#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the examples of README.md and docs/protocol.md against the daemon: feeds it from Python and from C at
the pace of a digitiser and reads a spectrum. Checks that the links of all pages lead somewhere, and that
programs have the options that pages name. pages_test.py runs commands. Exit 77: skipped."""
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
    print(f"skipped: the examples need python3-numpy and python3-zmq ({missing})")
    sys.exit(77)

source, binaries = (pathlib.Path(name).resolve() for name in sys.argv[1:3])


def snippet(document, language, mark):
    for block in re.findall(rf"```{language}\b[^\n]*\n(.*?)```", (source / document).read_text(), re.S):
        if mark in block:
            return block
    sys.exit(f"{document} has no {language} example with '{mark}'")


def start(*command, **options):
    return subprocess.Popen([str(part) for part in command], **options)


def expect_pace(endpoint, windows):
    """Sends at a digitiser's pace, so that no window comes early or overloads the daemon."""
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


def write_config(folder):
    """The demonstration's configuration, with endpoints in the folder."""
    text = (source / "config/demo.yaml").read_text()
    for port, name in (("5555", "in"), ("5556", "out")):
        text = text.replace(f"tcp://127.0.0.1:{port}", f"ipc://{folder}/{name}")
    (folder / "demo.yaml").write_text(text)
    return folder / "demo.yaml"


def try_readme(folder):
    config = write_config(folder)
    text = config.read_text()
    config.write_text(text.replace("mvdr:\n  enabled: true", "mvdr:\n  enabled: false"))
    files = {"feed.py": snippet("README.md", "python", "# feed"),
             "read.py": snippet("README.md", "python", "# read"),
             "feed.c": snippet("docs/protocol.md", "c", "zmq_connect(push")}
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


def anchors_of(page):
    """A heading's anchor by GitHub's rule."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^a-z0-9 -]", "", head.lower()).replace(" ", "-") for head in heads}


def try_links(_):
    pages = [source / "README.md", source / "CONTRIBUTING.md", *sorted((source / "docs").glob("*.md"))]
    links = 0
    for page in pages:
        for target in re.findall(r"\]\(([^)#:\s]*(?:#[^)\s]*)?)\)", page.read_text()):
            name, _, anchor = target.partition("#")
            to = (page.parent / name).resolve() if name else page
            assert to.exists(), f"{page.name}: there is no {target}"
            assert not anchor or anchor in anchors_of(to), f"{page.name}: {to.name} has no #{anchor}"
            links += 1
    print(f"{links} links lead somewhere")
    assert links > 20


def options_of(program, verb):
    """Its long and short options, those of `sonar-bench live` and the like with it."""
    helped = subprocess.run([binaries / program, *verb, "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", helped)), helped


def commands_of(page):
    """Program and words of each command of ours in the page's shell blocks and in its lines."""
    text = page.read_text()
    blocks = re.findall(r"```(?:sh|console)\b[^\n]*\n(.*?)```", text, re.S)
    for block in blocks + re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.S)):
        for line in block.replace("\\\n", " ").splitlines():
            for command in re.split(r"&&|\|\|?|;|&(?= |$)", re.sub(r"^\$ |(^|\s)#.*", "", line)):
                words = [word for word in command.split() if "=" not in word or word.startswith("-")]
                ours = [i for i, word in enumerate(words) if (binaries / pathlib.Path(word).name).is_file()]
                if ours and words[ours[0] + 1:] and (ours[0] == 0 or words[0] in ("mpirun", "sudo")):
                    yield pathlib.Path(words[ours[0]]).name, words[ours[0] + 1:]


def try_options(_):
    """The programs have all options that a page uses."""
    known, commands = {}, 0
    for page in [source / "README.md", *sorted((source / "docs").glob("*.md"))]:
        for program, words in commands_of(page):
            verb = words[:1] if program == "sonar-bench" and words[:1] in (["live"], ["ranks"]) else []
            if (program, *verb) not in known:
                known[program, *verb] = options_of(program, verb)
            options, helped = known[program, *verb]
            for word in words:
                option = re.match(r"--?[A-Za-z][\w-]*", word)
                assert not option or option[0] in options, f"{page.name}: {program} has no {option[0]}"
            if program == "sonarctl":
                verbs = [word for word in words if re.fullmatch("[a-z]+", word)]
                assert verbs and re.search(rf"^  {verbs[0]}\b", helped, re.M), f"{page.name}: sonarctl {words}"
            commands += 1
    print(f"{commands} commands have the options that they use")
    assert commands > 40


for test in try_links, try_options, try_readme:
    with tempfile.TemporaryDirectory() as name:
        test(pathlib.Path(name))
print("3 passed, 0 failed")

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of docs/lan.md between two network namespaces, node and display, with a simulated
digitiser; then a wrong key and no key. lan_test.py SOURCE BINARIES. Exit 77: skipped."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

source, binaries = (pathlib.Path(name).resolve() for name in sys.argv[1:3])
page = (source / "docs/lan.md").read_text()
NOBODY = 65534


def block(language, mark):
    for text in re.findall(rf"```{language}\b[^\n]*\n(.*?)```", page, re.S):
        if mark in text:
            return text
    sys.exit(f"docs/lan.md has no {language} block with '{mark}'")


def make_space():
    """A process with its own network namespace; it ends with this process."""
    space = subprocess.Popen(["unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec cat"], text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = space.stdout.readline()
    if said != "up\n":
        print(f"skipped: network namespaces cannot be made here: {said.strip()}")
        sys.exit(77)
    return space


def within(space, *command, **options):
    path = f"{binaries}:{os.environ['PATH']}"
    return subprocess.Popen(["nsenter", f"--net=/proc/{space.pid}/ns/net", *map(str, command)], text=True,
                            env={**os.environ, "PATH": path}, **options)


def run(space, *command, **options):
    process = within(space, *command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    text, _ = process.communicate(timeout=60)
    return process.returncode, text


def connect(node, other):
    done = run(node, "ip", "link", "add", "lan", "type", "veth", "peer", "name", "lan", "netns", other.pid)
    for space, host in ((node, 1), (other, 2)):
        done = done if done[0] else run(space, "sh", "-c",
                                        f"ip address add 192.168.10.{host}/24 dev lan && ip link set lan up")
    assert done[0] == 0, done


def write_config(etc):
    text = (source / "config/demo.yaml").read_text()
    wanted = block("yaml", "security:")
    for port in "5555", "5556":
        address = re.search(rf"tcp://[\d.]+:{port}", wanted).group()
        text = text.replace(f"tcp://127.0.0.1:{port}", address)
    text = text.replace("mvdr:\n  enabled: true", "mvdr:\n  enabled: false")
    (etc / "sonard.yaml").write_text(text + "\n" + wanted[wanted.index("security:"):])


def serve(folder, etc):
    """Like the service: its own user, who cannot open the keys' folder and gets copies of its files."""
    lent = folder / "credentials"
    lent.mkdir()
    shutil.copy(binaries / "sonard", folder)  # the user need not be able to read the build
    for file in (etc / "keys").iterdir():
        shutil.copy(file, lent / f"keys_{file.name}")
        os.chown(lent / f"keys_{file.name}", NOBODY, NOBODY)
    for path, mode in ((folder, 0o755), (etc / "keys", 0o700), (lent, 0o755)):
        path.chmod(mode)
    return within(node, "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env",
                  f"CREDENTIALS_DIRECTORY={lent}", folder / "sonard", etc / "sonard.yaml", stderr=open(folder / "log", "w"))


def expect(what, got, part):
    code, text = got
    assert part in text, f"{what}: exit {code}, wanted '{part}' in:\n{text}"
    print(f"{what}: ok")


def try_page(folder):
    etc = folder / "etc/sonard"
    etc.mkdir(parents=True)
    write_config(etc)
    script = block("sh", "keys").replace("/etc/sonard", str(etc))
    code, text = run(node, "bash", "-e", "-c", script)
    assert code == 0, text
    check = block("sh", "check and start").replace("/etc/sonard", str(etc))
    expect("check", run(node, "bash", "-e", "-c", check), "keys allowed: 1 to send, 1 to read")
    home = folder / "other"  # the other machine: only secret certificates and the configuration
    home.mkdir()
    for name in "digitiser-1", "display-1":
        shutil.move(etc / f"keys/{name}.key_secret", home)
    shutil.copy(etc / "sonard.yaml", home)
    (home / "read.py").write_text(block("python", "# read with a key"))
    (home / "c.c").write_text(block("c", "speak_curve") + '''
int main(int argc, char **argv) {
    char topic[32] = "";
    void *sub = zmq_socket(zmq_ctx_new(), ZMQ_SUB);
    if (argc < 3 || !speak_curve(sub, argv[1]) || zmq_connect(sub, argv[2]))
        return 1;
    zmq_setsockopt(sub, ZMQ_SUBSCRIBE, "cbf", 3);
    return zmq_recv(sub, topic, sizeof topic - 1, 0) < 0 || puts(topic) < 0;
}
''')
    subprocess.run(["cc", "-Wall", "-Werror", "-o", home / "c", home / "c.c", "-lzmq"], check=True)
    daemon = serve(folder, etc)
    sim = within(other, "sonar-sim", "--config", "sonard.yaml", "--scene",
                 source / "config/scenes/demo.yaml", "--key", "digitiser-1.key_secret",
                 cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        watch = block("sh", "on the display").replace("--count 3", "--count 3 --timeout 40")
        expect("watch", run(other, "bash", "-e", "-c", watch, cwd=home), "cbf.azimuth")
        expect("python", run(other, "/usr/bin/python3", "read.py", cwd=home), "cbf.azimuth")
        expect("c", run(other, "./c", "display-1.key_secret", "tcp://192.168.10.1:5556", cwd=home),
               "cbf.azimuth")
        wrong = watch.replace("display-1", "digitiser-1")
        expect("wrong key", run(other, "bash", "-c", wrong, cwd=home), "does not allow this key")
        plain = re.sub(r"--key \S+", "", watch)
        expect("no key", run(other, "bash", "-c", plain, cwd=home), "speaks CURVE")
    finally:
        for process in sim, daemon:
            process.send_signal(signal.SIGTERM)
            process.wait(15)
        if daemon.returncode:
            print((folder / "log").read_text())
    assert daemon.returncode == 0, daemon.returncode


if not shutil.which("ip"):
    print("skipped: iproute2's ip is needed to make network namespaces")
    sys.exit(77)
node, other = make_space(), make_space()
connect(node, other)
with tempfile.TemporaryDirectory() as name:
    try_page(pathlib.Path(name))

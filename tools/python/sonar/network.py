# SPDX-License-Identifier: GPL-3.0-or-later
"""A subscriber to a running sonard, over pyzmq."""
import logging
import re
import socket as sockets
import time
import urllib.parse

import zmq
from zmq.utils.monitor import recv_monitor_message

from .messages import Message

PATIENCE_S = 2  # in which a daemon that is there has sent its status
log = logging.getLogger("sonar")


def read_certificate(path):
    """The keys of a CURVE certificate, such as sonar-keys makes: public-key, secret-key, server-key."""
    with open(path, encoding="utf-8") as file:
        return dict(re.findall(r'^ {4}([a-z]+-key)\s*=\s*"([^"]{40})"', file.read(), re.M))


class Refused(ConnectionError):
    """The daemon will not have this reader, which need not wait."""


class Reader(zmq.Socket):
    """A SUB socket that knows why nothing comes, of which libzmq says nothing by itself. `why` is what to say after
    the endpoint, in the words of src/net/client.c; empty where nothing is known to be wrong."""
    key = refused = joined = False
    why = ""
    events = None

    def watch(self, key):
        """Before it connects."""
        self.key = key
        self.events = self.get_monitor_socket(zmq.EVENT_ALL)

    def look(self):
        """Takes what has happened; `why`. Waits for a second at most."""
        while not self.refused and self.events.poll(0):
            event = recv_monitor_message(self.events)
            self._take(event["event"], event["value"], event["endpoint"].decode())
        return self.why

    def _take(self, event, value, endpoint):
        if event == zmq.EVENT_CLOSED:
            self.why = "does not answer: nothing listens there"
        elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self.joined, self.why = True, ""
        elif event == zmq.EVENT_HANDSHAKE_FAILED_AUTH and self.key:
            self._refuse("does not allow this key: its public certificate (NAME.key) has to be in "
                         "security.allow_readers there")
        elif event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
            self._refuse("speaks CURVE and this reader does not, or vice versa: key decides")
        elif event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL and self.key:
            self.why = "hangs up in the handshake: this key connects too often, or the server-key is not its own"
        elif event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL and greets_with_curve(endpoint):
            self._refuse("speaks CURVE and this reader does not: key is needed")
        elif event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
            self.why = ("hangs up in the handshake: this user or address has too many connections, or makes them "
                        "too often")

    def _refuse(self, why):
        self.refused, self.why = True, why

    def close(self, linger=None):
        if self.events is not None and not self.closed:
            self.disable_monitor()
            self.events.close(0)
        super().close(linger)


def greets_with_curve(endpoint):
    """Whether a server names CURVE (ZMTP 3): it often hangs up before a plain reader has read that."""
    place, greeting = urllib.parse.urlsplit(endpoint), b""
    if place.scheme != "tcp":
        return False
    try:
        with sockets.create_connection((place.hostname, place.port), 1) as server:
            server.sendall(b"\xff" + bytes(8) + b"\x7f\x03")
            while len(greeting) < 32 and (more := server.recv(64)):
                greeting += more
    except OSError:
        return False
    return greeting[12:32].rstrip(b"\0") == b"CURVE"


def connect(endpoint, *topics, key=None, high_water_mark=1000):
    """A Reader that is connected to a daemon; `key` is a client's secret certificate (NAME.key_secret)."""
    socket = Reader(zmq.Context.instance(), zmq.SUB)
    socket.rcvhwm = high_water_mark
    socket.linger = 0
    encrypted = key is not None and endpoint.startswith("tcp:")
    if encrypted:
        keys = read_certificate(key)
        missing = {"public-key", "secret-key", "server-key"} - keys.keys()
        if missing:
            socket.close()
            raise ValueError(f"{key}: there is no {', '.join(sorted(missing))}; sonar-keys client makes such files")
        socket.curve_serverkey = keys["server-key"].encode()
        socket.curve_publickey = keys["public-key"].encode()
        socket.curve_secretkey = keys["secret-key"].encode()
    for topic in topics:
        socket.subscribe(topic)
    socket.watch(encrypted)
    socket.connect(endpoint)
    return socket


def await_message(socket, endpoint, timeout_s, told):
    """True once a message is there, False after `timeout_s` without one. Logs each reason for waiting that is not
    in `told`; raises Refused where waiting is of no use."""
    began = time.monotonic()
    while True:
        waited_s = time.monotonic() - began
        left_s = 1 if timeout_s is None else timeout_s - waited_s
        if socket.poll(max(0, 1000 * min(left_s, 0.25))):
            return True
        why = socket.look()
        if socket.refused:
            raise Refused(f"{endpoint} {why}")
        if waited_s > PATIENCE_S and why and why not in told:
            told.add(why)
            log.warning("%s %s; waiting", endpoint, why)
        if left_s <= 0:
            return False


def subscribe(endpoint, *topics, key=None, timeout_s=None, high_water_mark=1000):
    """Yields messages for ever, or until none has come for `timeout_s`. Logs why it waits (logger "sonar"), and
    raises Refused if the daemon does not admit it. A slow reader loses messages; gaps in `header["seq"]` show this."""
    socket = connect(endpoint, *topics, key=key, high_water_mark=high_water_mark)
    told = set()
    try:
        while await_message(socket, endpoint, timeout_s, told):
            yield Message(socket.recv_multipart())
            told.clear()
    finally:
        socket.close()


def listen(endpoint, *topics, **options):
    """As subscribe; without topics those that every window brings: spectra, detections, status."""
    return subscribe(endpoint, *(topics or ("",)), **options)

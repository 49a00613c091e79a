"""Two programs that send each other datagrams and check each of them: datagram_pair.py a|b OWN PEER PORT OUT ORDER.
At "N send" of ORDER each sends the other a batch to each of its sockets, in the several ways that there are; at "N read" all of
that must be there, in its order, from where it was sent. In between a stream of questions and answers goes on, in which whole
answers may be missing, but never be doubled, changed or from somebody else. OUT gets a line of JSON."""
import ctypes
import json
import os
import select
import socket
import struct
import sys
import threading
import time

BATCH, GROUP = 20, "239.7.7.7"
libc = ctypes.CDLL(None, use_errno=True)


class iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class msghdr(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("namelen", ctypes.c_uint32), ("iov", ctypes.POINTER(iovec)), ("iovlen", ctypes.c_size_t),
                ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t), ("flags", ctypes.c_int)]


class mmsghdr(ctypes.Structure):
    _fields_ = [("header", msghdr), ("length", ctypes.c_uint)]


def packed(address, port):
    if ":" in address:
        return struct.pack("=HHI16sI", socket.AF_INET6, socket.htons(port), 0, socket.inet_pton(socket.AF_INET6, address), 0)
    return struct.pack("=HH4s8x", socket.AF_INET, socket.htons(port), socket.inet_aton(address))


def unpacked(name):
    family, port = struct.unpack_from("=HH", name)
    if family == socket.AF_INET6:
        return socket.inet_ntop(family, name[8:24]), socket.ntohs(port)
    return socket.inet_ntoa(name[4:8]), socket.ntohs(port)


def many(data, names):
    """mmsghdr[] of these, and what has to live as long."""
    messages = (mmsghdr * len(data))()
    buffers = [ctypes.create_string_buffer(each, max(len(each), 200)) for each in data]
    rooms = [ctypes.create_string_buffer(name, 28) for name in names]
    vectors = [iovec(ctypes.cast(buffer, ctypes.c_void_p), len(each) or 200) for buffer, each in zip(buffers, data)]
    for message, vector, room, name in zip(messages, vectors, rooms, names):
        message.header.iov, message.header.iovlen = ctypes.pointer(vector), 1
        message.header.name, message.header.namelen = ctypes.cast(room, ctypes.c_void_p), len(name) or 28
    return messages, (buffers, rooms, vectors)


def main():
    role, own, peer, port, out, order = sys.argv[1:4] + [int(sys.argv[4])] + sys.argv[5:7]
    six = ":" in own
    family = socket.AF_INET6 if six else socket.AF_INET
    state = {"sent": -1, "read": -1, "answers": 0, "bad": ""}

    told = os.open(out, os.O_RDWR | os.O_CREAT, 0o644)

    def report():  # the file stays the same one, of the same size: a restart finds it
        os.pwrite(told, (json.dumps(state)[:1000].ljust(1000) + "\n").encode(), 0)

    def bound(number, address=own):
        one = socket.socket(family, socket.SOCK_DGRAM)
        one.bind((address, port + number))
        return one

    # Free at a known port, free at every address, connected, who asks, who answers.
    free, everywhere, connected, asking, answering = bound(0), bound(1, "::" if six else "0.0.0.0"), bound(2), bound(3), bound(4)
    connected.connect((peer, port + 2))
    names = connected.getsockname(), connected.getpeername(), free.getsockname()
    group = None
    if not six:
        group = bound(5, "")
        group.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(GROUP) + socket.inet_aton(own))
        speaker = bound(6)
        speaker.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
        speaker.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)

    def text(number, what, i):
        return f"{number} {what} {i}".encode()

    def send(number):
        for i in range(BATCH):
            free.sendto(text(number, "sendto", i), (peer, port))
            free.sendmsg([text(number, "sendmsg", i)], [], 0, (peer, port + 1))
            connected.send(text(number, "connected", i))
        data = [text(number, "sendmmsg", i) for i in range(BATCH)]
        messages, kept = many(data, [packed(peer, port)] * BATCH)
        if libc.sendmmsg(free.fileno(), messages, BATCH, 0) != BATCH:
            raise OSError(ctypes.get_errno(), "sendmmsg")
        del kept
        # A sender that has gone.
        gone = bound(7)
        gone.sendto(text(number, "gone", 0), (peer, port))
        gone.close()
        if group:
            speaker.sendto(text(number, "news", 0), (GROUP, port + 5))

    def expect(got, wanted):
        if got != wanted:
            raise ValueError(f"{got!r} instead of {wanted!r}")

    def receive(one, wanted_from):
        if not select.select([one], [], [], 5)[0]:
            raise ValueError(f"nothing waits in {one.getsockname()}")
        data, name = one.recvfrom(200)
        expect(name[:2], wanted_from)
        return data

    def read(number):
        for i in range(BATCH):
            expect(receive(free, (peer, port)), text(number, "sendto", i))
        messages, kept = many([b""] * BATCH, [b""] * BATCH)
        for i in range(BATCH):
            messages[i].header.iov[0].length = 200
        got = libc.recvmmsg(free.fileno(), messages, BATCH, 0, None)
        if got != BATCH:
            raise ValueError(f"recvmmsg gives {got}")
        for i in range(BATCH):
            expect(kept[0][i].raw[:messages[i].length], text(number, "sendmmsg", i))
            expect(unpacked(kept[1][i].raw), (peer, port))
        expect(receive(free, (peer, port + 7)), text(number, "gone", 0))
        for i in range(BATCH):
            data, _, _, name = everywhere.recvmsg(200)
            expect((data, name[:2]), (text(number, "sendmsg", i), (peer, port)))
            expect(receive(connected, (peer, port + 2)), text(number, "connected", i))
        if group:
            expect(receive(group, (peer, port + 6)), text(number, "news", 0))
        for one in free, everywhere, connected, group:
            if one and select.select([one], [], [], 0)[0]:
                raise ValueError(f"too much in {one.getsockname()}: {one.recvfrom(200)}")
        expect((connected.getsockname(), connected.getpeername(), free.getsockname()), names)

    def questions():
        number = 0
        while True:
            number += 1
            asking.sendto(f"{role} {number}".encode(), (peer, port + 4))
            while select.select([asking], [], [], 0.2)[0]:
                data, name = asking.recvfrom(200)
                who, asked = data.decode().split()
                expect((who, name[:2]), (role, (peer, port + 4)))
                if int(asked) == number:
                    state["answers"] += 1
                    break
                if int(asked) > number:
                    raise ValueError(f"an answer to {data} before {number} was asked")
            time.sleep(0.005)

    def answers():
        last = 0
        while True:
            data, name = answering.recvfrom(200)
            who, asked = data.decode().split()
            expect((who, name[:2]), ("b" if role == "a" else "a", (peer, port + 3)))
            if int(asked) <= last:
                raise ValueError(f"{data} after {last}")
            last = int(asked)
            answering.sendto(data, name)

    def work():
        while True:
            try:
                words = open(order).read().split()
            except OSError:
                words = []
            if words and words[1] == "send" and int(words[0]) > state["sent"]:
                send(int(words[0]))
                state["sent"] = int(words[0])
            if words and words[1] == "read" and int(words[0]) > state["read"]:
                read(int(words[0]))
                state["read"] = int(words[0])
            report()
            time.sleep(0.05)

    def guarded(function):
        try:
            function()
        except Exception as problem:
            state["bad"] = f"{function.__name__}: {problem!r}"
        report()

    for function in questions, answers:
        threading.Thread(target=guarded, args=(function,), daemon=True).start()
    guarded(work)


main()

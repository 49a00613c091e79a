"""python3 asyncio: subprocesses with pipes both ways, timers, a server with clients, threads, signals."""
# ci: exact
import os
from cairn_test import same_as_undisturbed

PROGRAM = r"""
import asyncio, os, signal, sys, time

async def child(number):
    # What goes in comes out, line by line, with another process in between.
    program = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", "while read line; do echo $line-back; done; exit $1", "sh", str(number),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    total = 0
    for step in range(40):
        program.stdin.write(f"{number}.{step}\n".encode())
        await program.stdin.drain()
        line = (await program.stdout.readline()).decode().strip()
        assert line == f"{number}.{step}-back", line
        total += step
        await asyncio.sleep(0.01 * (number + 1))
    program.stdin.close()
    return total, await program.wait()

async def short():
    codes = []
    for step in range(30):
        program = await asyncio.create_subprocess_shell(f"exit {step % 5}")
        codes.append(await program.wait())
        await asyncio.sleep(0.01)
    return codes

async def big():
    # Megabytes through a pipe whose both ends are slow now and then.
    program = await asyncio.create_subprocess_exec("/usr/bin/cat", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    block = bytes(range(256)) * 400
    async def feed():
        for _ in range(40):
            program.stdin.write(block)
            await program.stdin.drain()
            await asyncio.sleep(0.01)
        program.stdin.close()
    feeding = asyncio.create_task(feed())
    got = 0
    while data := await program.stdout.read(10000):
        whole = (block * 2)[got % len(block):][:len(data)]
        assert data == whole
        got += len(data)
    await feeding
    return got, await program.wait()

async def serve(reader, writer):
    while line := await reader.readline():
        writer.write(line.upper())
        await writer.drain()
    writer.close()

async def talk(port, name):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for step in range(60):
        writer.write(f"{name} {step}\n".encode())
        assert await reader.readline() == f"{name} {step}\n".upper().encode()
        await asyncio.sleep(0.02)
    writer.close()
    return name

def in_thread(number):
    time.sleep(0.5 + 0.1 * number)
    return number * number

async def ticks():
    # Each follows from the one before: none may be lost or come early.
    began, late = time.monotonic(), 0
    for step in range(1, 101):
        await asyncio.sleep(began + 0.02 * step - time.monotonic())
        late = min(late, time.monotonic() - began - 0.02 * step)
    return late > -0.002

async def main():
    loop = asyncio.get_running_loop()
    signals = []
    loop.add_signal_handler(signal.SIGUSR1, lambda: signals.append("USR1"))
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    work = [child(0), child(1), child(2), short(), big(), ticks()]
    work += [talk(port, name) for name in ("ann", "bob", "cid")]
    work += [asyncio.to_thread(in_thread, number) for number in range(6)]
    gathered = asyncio.gather(*work)
    for _ in range(8):
        os.kill(os.getpid(), signal.SIGUSR1)
        await asyncio.sleep(0.2)
    for result in await gathered:
        print(result, flush=True)
    print(signals)
    server.close()
    await server.wait_closed()

asyncio.run(main())
"""


def test(t):
    def prepare(folder):
        with open(os.path.join(folder, "program.py"), "w") as file:
            file.write(PROGRAM)
    same_as_undisturbed(t, ["/usr/bin/python3", "program.py"], prepare=prepare)

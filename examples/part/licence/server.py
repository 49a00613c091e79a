"""A licence server with one seat: server.py PORT. A seat that is held is kept for who knows its name when the connection is gone."""
import secrets
import socketserver
import sys
import threading


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    lock, owner, held = threading.Lock(), None, None  # held: the seat's name


class Client(socketserver.StreamRequestHandler):
    def handle(self):
        server = self.server
        try:
            for line in self.rfile:
                word, *rest = line.decode().split()
                with server.lock:
                    answer = self.answer(word, rest)
                print(self.client_address[1], word, answer, flush=True)
                self.wfile.write(answer.encode() + b"\n")
        except OSError:
            pass
        with server.lock:
            if server.owner is self and server.held is None:
                server.owner = None

    def answer(self, word, rest):
        server = self.server
        if word == "TAKE" and server.owner is None:
            server.owner = self
            return "OK"
        if word == "BEAT" and server.owner is self:
            return "OK"
        if word == "HOLD" and server.owner is self:
            server.held = secrets.token_hex(8)
            return f"OK {server.held}"
        if word == "RESUME" and server.held is not None and rest == [server.held]:
            server.owner = self
            return "OK"
        return "NO"


if __name__ == "__main__":
    with Server(("127.0.0.1", int(sys.argv[1])), Client) as server:
        print("READY", flush=True)
        server.serve_forever()

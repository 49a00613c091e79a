"""Programs of others, as people start them, at rest: each is asked something, goes through checkpoint, kill -9 and restart, and is asked again.
at_rest.py [NAME...]: all that are installed, if none is named; --witness compares what the kernel shows as well (docs/programs.md)."""
# ci: none (its packages are heavy: where they are installed)
# timeout: 7200
import os
import re
import shutil
import subprocess
import sys
from cairn_test import Failure, Skip, check

# Of a prompt: what it prints when it is ready, what is typed before, and what is typed in each round ({n} is its number) with its answer.
PROMPTS = {
    "irb": ("env TERM=dumb irb -f --nomultiline --prompt simple", r">> ", "x = 40", "puts x + {n}", r"(?<!\d)4{n}\b"),
    "php": ("php -a", r"php >", "$x = 40;", "echo $x + {n}, \"\\n\";", r"(?<!\d)4{n}\b"),
    "lua": ("lua5.4", r"> ", "x = 40", "print(x + {n})", r"(?<!\d)4{n}\b"),
    "guile": ("guile --no-auto-compile -q", r"> ", "(define x 40)", "(+ x {n})", r"= 4{n}\b"),
    "ocaml": ("ocaml -noinit", r"# ", "let x = 40;;", "x + {n};;", r"int = 4{n}\b"),
    "erl": ("erl", r"1> ", "X = 40.", "X + {n}.", r"(?<!\d)4{n}\b"),
    "sbcl": ("sbcl --no-userinit", r"\* ", "(defvar x 40)", "(+ x {n})", r"(?<!\d)4{n}\b"),
    "octave": ("octave-cli --no-history --quiet", r"octave:1> ", "x = 40;", "x + {n}", r"ans = 4{n}\b"),
    "R": ("R --vanilla --quiet", r"> ", "x <- 40", "x + {n}", r"\[1\] 4{n}\b"),
    "ipython": ("ipython3 --simple-prompt --no-banner --quick --HistoryManager.enabled=False", r"In \[1\]: ", "x = 40", "x + {n}", r"Out\[\d+\]: 4{n}\b"),
    "swipl": ("swipl -q -f none", r"\?- ", "assertz(x(40)).", "x(A), B is A + {n}, write(got(B)), nl.", r"got\(4{n}\)"),
    "gforth": ("gforth", r"with `license'|Type `bye'", "40 constant x", "x {n} + .", r"4{n}  ok"),
    "clisp": ("clisp -q -norc", r"\[1\]> ", "(defvar x 40)", "(+ x {n})", r"(?<!\d)4{n}\b"),
    "dc": ("dc", None, "40 sx", "lx {n} + p", r"(?<!\d)4{n}\b"),
    "gp": ("gp -q -f", r"\? ", "x = 40;", "x + {n}", r"4{n}\b"),
    "maxima": ("maxima --very-quiet", None, "x : 40;", "x + {n};", r"4{n}\b"),
    "gnuplot": ("gnuplot", r"gnuplot> ", "x = 40", "print x + {n}", r"4{n}\b"),
    "units": ("units", r"You have: ", None, "4{n} m\rcm", r"\* 4{n}00"),
    "ed": ("ed -p '* '", r"\* ", "a\r40\r.", "1p", r"(?<!\d)40\b"),
    "gawk": ("gawk '{ sum += $1; print \"sum\", sum + 0 }'", None, "40", "0", r"sum 40"),
    "tclsh": ("tclsh", r"% ", "set x 40", "puts [expr $x + {n}]", r"(?<!\d)4{n}\b"),
    "gdb": ("gdb -q -nx", r"\(gdb\) ", "set $x = 40", "print $x + {n}", r"= 4{n}\b"),
    "sqlite": ("sqlite3", r"sqlite> ", "create table t(x); insert into t values(40);", "select x + {n} from t;", r"(?<!\d)4{n}\b"),
    "bc": ("bc -q", None, "x = 40", "x + {n}", r"(?<!\d)4{n}\b"),
    "zsh": ("zsh -f", r"[$#] ", "x=40", "echo got $((x + {n}))", r"got 4{n}\b"),
    "dash": ("dash -i", r"[$#] ", "x=40", "echo got $((x + {n}))", r"got 4{n}\b"),
    "lftp": ("lftp", r"lftp :~> ", "alias x 'echo forty'", "x {n}", r"forty {n}\r?\n"),
}

# A full screen: what shows that it is ready, what is typed in each round, what it shows then, and the key that draws it anew.
SCREENS = {
    "emacs": ("emacs -nw -Q text", r"text", "word{n} ", r"word{n}", "\x0c"),
    "nano": ("nano -I text", r"text", "word{n} ", r"word{n}", "\x0c"),
    "mcedit": ("mcedit -c text", r"text", "word{n} ", r"word{n}", "\x0c"),
    "joe": ("joe text", r"text", "word{n} ", r"word{n}", ""),
    "ne": ("ne text", r"text", "word{n} ", r"word{n}", "\x0c"),
    "kak": ("kak -n text", r"text", "iword{n} \x1b", r"word{n}", "\x0c"),
    "mc": ("mc -u -b", r"Hint|Name", "echo word{n}", r"word{n}", "\x0c"),
    "htop": ("htop --no-color", r"Load average", "", r"Load average", "\x0c"),
    "top": ("top -d 1", r"load average", "", r"load average", " "),
    "watch": ("watch -n 1 date +%Y", r"Every 1", "", r"Every 1|20\d\d", ""),
    "lynx": ("lynx -nopause page.html", r"a heading", "", None, ""),  # it looks at the size of its screen when a key is pressed
    "w3m": ("w3m page.html", r"a heading", "", r"a heading", "\x0c"),
    "elinks": ("elinks page.html", r"a heading", "", r"a heading", "\x0c"),
    "mutt": ("mkdir -p Mail; exec mutt -n -F /dev/null -f mbox", r"a subject", "", r"a subject", "\x0c"),
    "irssi": ("irssi --home=irssi", r"Irssi|status", "word{n} ", r"word{n}", "\x0c"),
    "weechat": ("weechat -t", r"WeeChat", "word{n} ", r"word{n}", "\x0c"),
    "ranger": ("ranger --clean .", r"page.html", "", r"page.html", "\x0c"),
    "tig": ("tig", r"a commit", "", r"a commit", "\x0c"),
    "ncdu": ("ncdu .", r"Total disk", "", r"Total disk", ""),
}

# A server, by a shell's line; a question to it from outside the group, and the answer. {p} and {q}: free ports.
SERVERS = {
    "memcached": ("memcached -p {p} -l 127.0.0.1 -u $(id -un)", r"printf 'add k 0 0 2\r\n40\r\nget k\r\nquit\r\n' | nc -w 2 127.0.0.1 {p}", r"VALUE k 0 2\s+40"),
    "mariadb": ("mariadb-install-db --no-defaults --datadir=$PWD/data --auth-root-authentication-method=normal --user=$(id -un) >install 2>&1; "
                "exec mariadbd --no-defaults --datadir=$PWD/data --socket=$PWD/s --skip-networking --user=$(id -un) --innodb-use-native-aio=0",
                "mariadb --no-defaults -u root -S s -e 'create database if not exists d; create table if not exists d.t(x int); insert into d.t values(4); select count(*) > 0, 40 + 2 from d.t'", r"1\s+42"),
    "named": ("printf 'options {{ directory \"%s\"; listen-on port {p} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; pid-file none; session-keyfile \"k\"; }}; controls {{ }}; "
              "zone \"x.test\" {{ type primary; file \"zone\"; }};' $PWD >named.conf; exec named -g -n 2 -c $PWD/named.conf", "dig +short -p {p} @127.0.0.1 a.x.test", r"10\.1\.2\.3"),
    "dnsmasq": ("exec dnsmasq -k -C /dev/null -p {p} -R -h --address=/a.x.test/10.1.2.3 -u $(id -un) --pid-file=$PWD/pid", "dig +short -p {p} @127.0.0.1 a.x.test", r"10\.1\.2\.3"),
    "unbound": ("printf 'server:\n interface: 127.0.0.1@{p}\n port: {p}\n chroot: \"\"\n username: \"\"\n pidfile: \"\"\n directory: \"%s\"\n use-syslog: no\n local-data: \"a.x.test A 10.1.2.3\"\n"
                "remote-control:\n control-enable: no\n' $PWD >u.conf; exec unbound -d -c u.conf", "dig +short -p {p} @127.0.0.1 a.x.test", r"10\.1\.2\.3"),
    "haproxy": ("printf 'defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\nfrontend f\n bind 127.0.0.1:{p}\n http-request return status 200 content-type text/plain string forty\n' >h.cfg; exec haproxy -W -f h.cfg",
                "curl -s http://127.0.0.1:{p}/", "forty"),
    "varnish": ("printf 'vcl 4.1; backend default none; sub vcl_recv {{ return (synth(200, \"forty\")); }}' >v.vcl; exec varnishd -F -n $PWD/v -a 127.0.0.1:{p} -f $PWD/v.vcl -s malloc,16m $JAIL", "curl -s http://127.0.0.1:{p}/", "forty"),
    "lighttpd": ("printf 'server.document-root = \"%s\"\nserver.port = {p}\nserver.bind = \"127.0.0.1\"\n' $PWD >l.conf; exec lighttpd -D -f l.conf", "curl -s http://127.0.0.1:{p}/page.html", "a heading"),
    "apache2": ("printf 'ServerName x\nListen 127.0.0.1:{p}\nPidFile pid\nErrorLog error.log\nDocumentRoot %s\nLoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so\n"
                "LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so\n' $PWD >a.conf; exec apache2 -d $PWD -f a.conf -DFOREGROUND", "curl -s http://127.0.0.1:{p}/page.html", "a heading"),
    "rabbitmq": ("HOME=$PWD RABBITMQ_MNESIA_BASE=$PWD/m RABBITMQ_LOG_BASE=$PWD RABBITMQ_NODENAME=r{p}@localhost RABBITMQ_NODE_PORT={p} RABBITMQ_DIST_PORT={q} RABBITMQ_ENABLED_PLUGINS_FILE=$PWD/none "
                 "RABBITMQ_CONF_ENV_FILE=$PWD/none exec /usr/lib/rabbitmq/bin/rabbitmq-server", "printf 'AMQP\\0\\0\\x09\\x01' | nc -w 2 127.0.0.1 {p} | head -c 8 | xxd", "(?i)AMQP|0100 00"),
    "etcd": ("exec etcd --data-dir $PWD/e --listen-client-urls http://127.0.0.1:{p} --advertise-client-urls http://127.0.0.1:{p} --listen-peer-urls http://127.0.0.1:{q} "
             "--initial-advertise-peer-urls http://127.0.0.1:{q} --initial-cluster default=http://127.0.0.1:{q}", "curl -s http://127.0.0.1:{p}/health", r'"health": *"true"'),
    "mosquitto": ("exec mosquitto -p {p}", r"printf '\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01a' | nc -w 2 127.0.0.1 {p} | xxd", "2002 0000"),
    "slapd": ("mkdir -p db; printf 'include /etc/ldap/schema/core.schema\nmodulepath /usr/lib/ldap\nmoduleload back_mdb\ndatabase mdb\nmaxsize 1000000\ndirectory %s/db\nsuffix \"dc=x\"\n' $PWD >s.conf; exec slapd -d 0 -f s.conf -h ldap://127.0.0.1:{p}",
              r"printf '\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\x00\x80\x00' | nc -w 2 127.0.0.1 {p} | xxd", "300c 0201 0161"),
    "dropbear": ("dropbearkey -t ed25519 -f key >/dev/null; exec dropbear -F -E -p 127.0.0.1:{p} -r key -P pid", "nc -w 2 127.0.0.1 {p} </dev/null | head -c 60", "SSH-2.0-dropbear"),
    "rsyncd": ("printf 'use chroot = no\n[x]\npath = %s\n' $PWD >r.conf; exec rsync --daemon --no-detach --address=127.0.0.1 --port={p} --config=r.conf", "rsync rsync://127.0.0.1:{p}/x/", "page.html"),
    "tinyproxy": ("printf 'Port {p}\nListen 127.0.0.1\nStatHost \"tp.test\"\n' >t.conf; exec tinyproxy -d -c t.conf", "curl -s -x http://127.0.0.1:{p} http://tp.test/", "(?i)tinyproxy"),
    "stunnel": ("openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=x -keyout k.pem -out c.pem 2>/dev/null; printf 'foreground = yes\npid =\n[x]\naccept = 127.0.0.1:{p}\nexec = /bin/echo\nexecArgs = echo forty\ncert = %s/c.pem\nkey = %s/k.pem\n' $PWD $PWD >s.conf; exec stunnel4 s.conf",
                "openssl s_client -quiet -connect 127.0.0.1:{p} </dev/null 2>/dev/null", "forty"),
    "beanstalkd": ("exec beanstalkd -l 127.0.0.1 -p {p}", r"printf 'put 0 0 9 2\r\n40\r\npeek-ready\r\nquit\r\n' | nc -w 2 127.0.0.1 {p}", r"FOUND \d+ 2"),
    "nats": ("exec nats-server -a 127.0.0.1 -p {p}", r"printf 'PING\r\n' | nc -w 2 127.0.0.1 {p}", "PONG"),
    "prometheus": ("printf 'global:\n  scrape_interval: 15s\n' >p.yml; exec prometheus --config.file=p.yml --storage.tsdb.path=$PWD/d --web.listen-address=127.0.0.1:{p}", "curl -s http://127.0.0.1:{p}/-/ready", "(?i)ready"),
    "gunicorn": ("printf 'def app(e, s):\n    s(\"200 OK\", [])\n    return [b\"forty\"]\n' >w.py; exec gunicorn -w 2 -b 127.0.0.1:{p} w:app", "curl -s http://127.0.0.1:{p}/", "forty"),
    "uwsgi": ("printf 'def application(e, s):\n    s(\"200 OK\", [])\n    return [b\"forty\"]\n' >w.py; exec uwsgi-core --plugin python3 --http-socket 127.0.0.1:{p} --master -p 2 --wsgi-file w.py", "curl -s http://127.0.0.1:{p}/", "forty"),
    "caddy": ("HOME=$PWD exec caddy file-server --root $PWD --listen 127.0.0.1:{p}", "curl -s http://127.0.0.1:{p}/page.html", "a heading"),
    "transmission": ("exec transmission-daemon -f -g $PWD/c -p {p} -r 127.0.0.1 -P {q} -T", "curl -s http://127.0.0.1:{p}/transmission/rpc", "X-Transmission-Session-Id"),
    "aria2": ("exec aria2c --enable-rpc --rpc-listen-port={p} --no-conf --enable-dht=false", "curl -s http://127.0.0.1:{p}/jsonrpc -d '{{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"method\":\"aria2.getVersion\"}}'", "version"),
    "sshd": ("ssh-keygen -q -t ed25519 -N '' -f hk; exec /usr/sbin/sshd -D -e -p {p} -h $PWD/hk -f /dev/null -o PidFile=none", "nc -w 2 127.0.0.1 {p} </dev/null | head -c 40", "SSH-2.0"),
    "vsftpd": ("printf 'listen=YES\nlisten_port={p}\nlisten_address=127.0.0.1\nanonymous_enable=NO\nlocal_enable=YES\nrun_as_launching_user=YES\nsecure_chroot_dir=%s\nbackground=NO\n' $PWD >v.conf; exec vsftpd v.conf", "nc -w 2 127.0.0.1 {p} </dev/null", "220 "),
    "inspircd": ("printf '<config format=\"xml\"><server name=\"x.test\" description=\"x\" network=\"x\"><admin name=\"x\" email=\"x\"><bind address=\"127.0.0.1\" port=\"{p}\" type=\"clients\"><connect allow=\"*\" timeout=\"60\"><pid file=\"%s/pid\">' $PWD >i.conf; exec inspircd --nofork --config=$PWD/i.conf --runasroot",
                 r"(printf 'NICK a\r\nUSER a a a a\r\n'; sleep 1) | nc -w 2 127.0.0.1 {p}", "(?i)x.test"),
}
PAGE = "<html><head><title>t</title></head><body><h1>a heading</h1></body></html>\n"
MAIL = "From a@b Mon Jan  1 00:00:00 2024\nFrom: a@b\nTo: c@d\nSubject: a subject\n\ntext\n\n"


def tool_of(command):
    words = re.findall(r"exec ([\w./-]+)", command)
    return words[-1] if words else re.sub(r"^env \S+=\S+ ", "", command).split()[0]


def prepare(t):
    for name, text in (("page.html", PAGE), ("mbox", MAIL), ("text", "first text\n"), ("zone", "$TTL 60\n@ SOA a. b. 1 60 60 60 60\n@ NS a\na A 10.1.2.3\n")):
        with open(os.path.join(t.work, name), "w") as file:
            file.write(text)


def prompt(t, name):
    command, ready, before, ask, answer = PROMPTS[name]
    program = t.launch(["sh", "-c", command if "exec" in command else "exec " + command], name=name, env={"HOME": t.work, "PS1": "$ "})
    if ready:
        program.expect(ready, timeout=60)
    if before:
        program.send(before + "\r")
    for number in range(t.rounds):
        for restarted in (False, True):
            if restarted:
                program, _ = t.cycle(program, number)
                t.sleep(0.2)
            program.terminal.drain()
            program.terminal.skip()
            program.send(ask.format(n=number) + "\r")
            program.expect(answer.format(n=number), timeout=20)
            t.sleep(0.3)
    return program


def screen(t, name):
    command, ready, typed, shown, again = SCREENS[name]
    if name == "tig":
        subprocess.run("git init -q . && git -c user.name=x -c user.email=x@y commit -q --allow-empty -m 'a commit'", shell=True, cwd=t.work, check=True)
    program = t.launch(["sh", "-c", command if "exec" in command else "exec " + command], name=name, env={"HOME": t.work, "TERM": "xterm", "SHELL": "/bin/sh"})
    if ready:
        program.expect(ready, timeout=30)
    t.sleep(1.0)
    for number in range(t.rounds):
        program.send(typed.format(n=number))
        t.sleep(0.5)
        program, _ = t.cycle(program, number)
        # It draws itself, without being asked: else the screen stays empty until a key is pressed.
        if shown and not t.dry:
            program.expect(shown.format(n=number), timeout=15)
        t.sleep(0.3)
        program.terminal.drain()
        program.terminal.skip()
        program.send(again)
        if shown and again:
            program.expect(shown.format(n=number), timeout=15)
    return program


def server(t, name):
    command, ask, answer = SERVERS[name]
    ports = {"p": t.random.randrange(12000, 15000), "q": t.random.randrange(15000, 18000)}
    program = t.launch(["sh", "-c", command.format(**ports)], name=name, env={"HOME": t.work, "JAIL": "-j none"})

    def asked():
        code, out, err = t.run(["bash", "-c", ask.format(**ports)], timeout=30)
        return re.search(answer, out)

    t.wait_until(asked, f"{name} to answer", 40)
    for number in range(t.rounds):
        t.sleep(0.5)
        program, _ = t.cycle(program, number)
        t.wait_until(asked, f"{name} to answer after restart {number + 1}", 20)
    return program


def one(t, name):
    table, run = next((table, run) for table, run in ((PROMPTS, prompt), (SCREENS, screen), (SERVERS, server)) if name in table)
    tool = tool_of(table[name][0])
    os.environ["PATH"] = t.env["PATH"] = t.env["PATH"] + ":/usr/sbin:/sbin"
    if not shutil.which(tool):
        raise Skip(f"{tool} isn't installed")
    prepare(t)
    try:
        run(t, name)
    except Failure:
        t.say("".join(t.text_of(program) for program in t.programs))
        raise


def test(t):
    if len(t.arguments.names) == 1:
        return one(t, t.arguments.names[0])
    names = t.arguments.names or [*PROMPTS, *SCREENS, *SERVERS]
    bad, missing = [], []
    for name in names:
        command = [sys.executable, os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + "/support/cairn_test", os.path.abspath(__file__),
                   name, "--mode", t.mode, "--rounds", str(t.rounds), "--build", t.build,
                   *(["--witness"] if t.arguments.witness else []), *(["--dry"] if t.dry else [])]
        found = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        text = found.stdout.decode(errors="replace")
        said = [line for line in text.splitlines() if "FAILED" in line or "SKIPPED" in line]
        t.say(f"{name}: {'passed' if found.returncode == 0 else said[0] if said else found.returncode}")
        (missing if found.returncode == 77 else bad if found.returncode else []).append(name)
        with open(os.path.join(os.environ.get("CAIRN_TEST_REPORTS", t.work), f"{name}.{t.mode}.log"), "w") as file:
            file.write(text)
    if len(missing) == len(names):
        raise Skip("none of them is installed")
    check(not bad, f"{len(bad)} of {len(names) - len(missing)}: {' '.join(bad)}")

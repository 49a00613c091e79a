"""Programs of others, as people start them, at rest: each is asked something, goes through checkpoint, kill -9 and restart, and is asked again.
at_rest.py [NAME...]: all that are installed, if none is named; --witness compares what the kernel shows as well (docs/programs.md)."""
# ci: none (its packages are heavy: where they are installed)
# timeout: 7200
import os
import re
import shutil
import subprocess
from cairn_test import Failure, Skip, table

# A kernel and a first file system for machines: Debian's kernel, where one is installed or fetched, and busybox.
MACHINE = ("mkdir -p i/bin; cp /bin/busybox i/bin; printf '#!/bin/busybox sh\n/bin/busybox --install -s /bin\nmount -t proc proc /proc 2>/dev/null\nexec setsid cttyhack sh\n' >i/init; mkdir i/proc i/dev; chmod 755 i/init; "
           "(cd i; find . | cpio -o -H newc --quiet) >initrd; cp $(ls /boot/vmlinuz-* ${CAIRN_TEST_KERNEL:-/none} 2>/dev/null | tail -1) kernel 2>/dev/null;")

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
    "jshell": ("env TERM=dumb jshell", r"jshell> ", "int x = 40", "x + {n}", r"==> 4{n}\b"),
    "node": ("env NODE_NO_READLINE=1 node", r"> ", "x = 40", "x + {n}", r"(?<!\d)4{n}\b"),
    "ghci": ("ghci -v1 -ignore-dot-ghci", r"(ghci|Prelude)> ", "x = 40 :: Int", "x + {n}", r"(?<!\d)4{n}\b"),
    "pypy": ("pypy3 -S", r">>>> ", "x = 40", "x + {n}", r"(?<!\d)4{n}\b"),
    "csharp": ("env TERM=dumb csharp", r"csharp> ", "var x = 40;", "x + {n};", r"(?<!\d)4{n}\b"),
    "qemu": (MACHINE + " exec qemu-system-x86_64 -nographic -no-reboot -m 128 -accel tcg -kernel kernel -initrd initrd -append 'console=ttyS0 quiet panic=-1'", r"/ # ", "x=40", "echo got $((x + {n})) $(date +%s)", r"got 4{n} \d"),
    "qemu-disk": (MACHINE + " qemu-img create -q -f qcow2 d.qcow2 64M; exec qemu-system-x86_64 -nographic -no-reboot -m 128 -smp 2 -accel tcg,thread=multi -drive file=d.qcow2,if=ide,cache=writeback -nic user -kernel kernel -initrd initrd -append 'console=ttyS0 quiet panic=-1'",
                  r"/ # ", "x=40", "echo got $((x + {n}))", r"got 4{n}\b"),
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
    "zookeeper": ("printf 'tickTime=2000\ndataDir=%s/z\nclientPort={p}\nadmin.enableServer=false\n4lw.commands.whitelist=*\n' $PWD >zoo.cfg; exec java -cp $(echo /usr/share/java/zookeeper.jar:/usr/share/java/*.jar | tr ' ' :) org.apache.zookeeper.server.quorum.QuorumPeerMain zoo.cfg", "printf ruok | nc -w 2 127.0.0.1 {p}", "imok"),
    "tomcat": ("tomcat10-instance-create -p {p} -c {q} t >/dev/null; mkdir -p t/webapps/ROOT; cp page.html t/webapps/ROOT; CATALINA_BASE=$PWD/t exec /usr/share/tomcat10/bin/catalina.sh run", "curl -s http://127.0.0.1:{p}/page.html", "a heading"),
    "activemq": ("cp -r /usr/share/activemq a; sed 's/61616/{p}/' /etc/activemq/instances-available/main/activemq.xml >a.xml; exec java -Dactivemq.home=/usr/share/activemq -Dactivemq.base=$PWD -Dactivemq.data=$PWD/d -jar /usr/share/activemq/bin/activemq.jar start xbean:file:a.xml", "nc -w 2 127.0.0.1 {p} </dev/null | head -c 40 | strings", "ActiveMQ"),
    "supervisord": ("printf '[supervisord]\nnodaemon=true\npidfile=%s/pid\n[unix_http_server]\nfile=%s/s\n[rpcinterface:supervisor]\nsupervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface\n[supervisorctl]\nserverurl=unix://%s/s\n[program:a]\ncommand=sleep 3600\n' $PWD $PWD $PWD >s.conf; exec supervisord -c s.conf",
                    "supervisorctl -c s.conf status; supervisorctl -c s.conf restart a", "RUNNING(.|\\n)*started"),
    "cron": ("mkdir -p c; echo '* * * * * touch '$PWD'/beat' >c/$(id -un); exec busybox crond -f -c $PWD/c", "rm beat && echo beats", "beats"),
    "exim": ("printf 'primary_hostname = x.test\nlog_file_path = %s/%%s\nspool_directory = %s/spool\nexim_user = %s\nbegin acl\nbegin routers\nbegin transports\n' $PWD $PWD $(id -un) >e.conf; exec setpriv --no-new-privs exim4 -C $PWD/e.conf -bdf -oX 127.0.0.1.{p} $([ $(id -u) != 0 ] || echo -oP $PWD/pid)", "(sleep 0.5; printf 'QUIT\r\n') | nc -w 2 127.0.0.1 {p}", "220 x.test ESMTP Exim"),
    "dovecot": ("U=$(id -un); mkdir Maildir; [ $U != root ] || {{ U=nobody; chown nobody Maildir; }}; printf 'protocols = imap\nmail_location = maildir:~/Maildir\nbase_dir = %s/run\nlog_path = %s/log\nssl = no\ndefault_internal_user = %s\ndefault_login_user = %s\ndefault_internal_group = %s\nservice anvil {{\n chroot =\n}}\nservice imap-login {{\n chroot =\n inet_listener imap {{\n  address = 127.0.0.1\n  port = {p}\n }}\n}}\npassdb {{\n driver = static\n args = password=p\n}}\nuserdb {{\n driver = static\n args = uid=%s gid=%s home=%s\n}}\n' $PWD $PWD $U $U $(id -gn $U) $(id -u $U) $(id -g $U) $PWD >d.conf; exec dovecot -F -c d.conf",
                "(sleep 0.3; printf 'a login u p\r\nb logout\r\n'; sleep 0.5) | nc -w 3 127.0.0.1 {p}", r"OK .*IMAP4rev1"),
    "samba": ("mkdir -p s x; for d in 'private dir' 'lock directory' 'state directory' 'cache directory' 'pid directory' 'ncalrpc dir'; do echo \"$d = $PWD/s\"; done >g; (echo '[global]'; cat g; printf 'smb ports = {p}\nbind interfaces only = yes\ninterfaces = 127.0.0.1\nmap to guest = bad user\nguest account = %s\nlog file = %s/log\n[x]\npath = %s\nguest ok = yes\n' $(id -un) $PWD $PWD) >s.conf; exec smbd -F --no-process-group -s s.conf",
              "smbclient -s /dev/null -N -p {p} //127.0.0.1/x -c ls", "page.html"),
    "squid": ("printf 'http_port 127.0.0.1:{p}\npid_filename %s/pid\naccess_log none\ncache_log %s/log\ncoredump_dir %s\n%s\npinger_enable off\nhttp_access allow all\n' $PWD $PWD $PWD \"$([ $(id -u) = 0 ] && echo cache_effective_user proxy)\" >s.conf; [ $(id -u) != 0 ] || chmod 777 .; rm -f /dev/shm/squidt*; exec squid --foreground -n squidt{p} -f s.conf", "curl -s -x http://127.0.0.1:{p} http://127.0.0.1:1/", "(?i)squid"),
    "icecast": ("sed -e 's,<port>8000</port>,<port>{p}</port>,' -e \"s,/var/log/icecast2,$PWD,\" -e 's,<fileserve>1,<fileserve>0,' /etc/icecast2/icecast.xml >i.xml; [ $(id -u) != 0 ] || {{ chmod 777 .; sed -i 's,</security>,<changeowner><user>nobody</user><group>nogroup</group></changeowner></security>,' i.xml; }}; exec icecast2 -c i.xml", "curl -si http://127.0.0.1:{p}/none", "(?i)icecast"),
    "prosody": ("printf 'data_path = \"%s\"\npidfile = \"%s/pid\"\nc2s_ports = {{ {p} }}\nc2s_interfaces = {{ \"127.0.0.1\" }}\ns2s_ports = {{ }}\nhttp_ports = {{ }}\nhttps_ports = {{ }}\nmodules_disabled = {{ \"s2s\" }}\nlog = {{ info = \"%s/log\" }}\nrun_as_root = true\nVirtualHost \"x.test\"\n' $PWD $PWD $PWD >p.lua; exec prosody --config $PWD/p.lua -F",
                "printf '<stream:stream to=\"x.test\" xmlns=\"jabber:client\" xmlns:stream=\"http://etherx.jabber.org/streams\" version=\"1.0\">' | nc -w 2 127.0.0.1 {p}", "stream:(features|error)"),
    "ejabberd": ("printf 'hosts:\n  - x.test\nlisten:\n  -\n    port: {p}\n    ip: \"127.0.0.1\"\n    module: ejabberd_c2s\nmodules: {{}}\n' >e.yml; HOME=$PWD exec erl -noinput -sname e{p}@localhost -pa /usr/lib/x86_64-linux-gnu/*/ebin -mnesia dir \"\\\"$PWD/m\\\"\" -ejabberd config \"\\\"$PWD/e.yml\\\"\" log_path \"\\\"$PWD/log\\\"\" -s ejabberd",
                 "printf '<stream:stream to=\"x.test\" xmlns=\"jabber:client\" xmlns:stream=\"http://etherx.jabber.org/streams\" version=\"1.0\">' | nc -w 2 127.0.0.1 {p}", "stream:features"),
    "influxdb": ("printf 'reporting-disabled = true\nbind-address = \"127.0.0.1:{q}\"\n[meta]\ndir = \"%s/m\"\n[data]\ndir = \"%s/d\"\nwal-dir = \"%s/w\"\n[http]\nbind-address = \"127.0.0.1:{p}\"\n' $PWD $PWD $PWD >i.conf; exec influxd run -config i.conf", "curl -s http://127.0.0.1:{p}/query --data-urlencode 'q=create database d'; curl -s http://127.0.0.1:{p}/write?db=d --data-binary 't,a=b x=4'; curl -s http://127.0.0.1:{p}/query?db=d --data-urlencode 'q=select count(x) from t'", '"values"'),
    "victoria-metrics": ("exec victoria-metrics -storageDataPath=$PWD/d -httpListenAddr=127.0.0.1:{p}", "curl -s http://127.0.0.1:{p}/health", "OK"),
    "alertmanager": ("printf 'route:\n  receiver: a\nreceivers:\n  - name: a\n' >a.yml; exec prometheus-alertmanager --config.file=a.yml --storage.path=$PWD/d --web.listen-address=127.0.0.1:{p} --cluster.listen-address=", "curl -s http://127.0.0.1:{p}/-/ready", "OK"),
    "node-exporter": ("exec prometheus-node-exporter --web.listen-address=127.0.0.1:{p}", "curl -s http://127.0.0.1:{p}/metrics", "node_load1"),
    "docker-registry": ("printf 'version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: %s/r\nhttp:\n  addr: 127.0.0.1:{p}\n' $PWD >r.yml; exec docker-registry serve r.yml", "curl -s http://127.0.0.1:{p}/v2/_catalog", "repositories"),
    "syncthing": ("HOME=$PWD exec syncthing serve --no-browser --no-restart --home=$PWD/s --gui-address=127.0.0.1:{p}", "curl -s http://127.0.0.1:{p}/rest/system/ping; curl -s http://127.0.0.1:{p}/ | head -c 200", "(?i)html|pong"),
    "kea": ("printf '{{\"Dhcp4\": {{\"interfaces-config\": {{\"interfaces\": []}}, \"lease-database\": {{\"type\": \"memfile\", \"persist\": false}}, \"control-socket\": {{\"socket-type\": \"unix\", \"socket-name\": \"%s/s\"}}, \"subnet4\": []}}}}' $PWD >k.json; KEA_PIDFILE_DIR=$PWD KEA_LOCKFILE_DIR=$PWD exec kea-dhcp4 -c k.json",
            "echo '{{\"command\": \"config-get\"}}' | nc -w 2 -U s", '"result": 0'),
    "freeradius": ("cp -rL /etc/freeradius/3.0 r; sed -i -e \"s/user = freerad/user = $(id -un)/\" -e \"s/group = freerad/group = $(id -gn)/\" -e \"s,^logdir = .*,logdir = $PWD,\" -e \"s,^run_dir = .*,run_dir = $PWD,\" -e \"s,^raddbdir = .*,raddbdir = $PWD/r,\" r/radiusd.conf; rm -f r/mods-enabled/eap r/sites-enabled/*; printf 'server x {{\n listen {{\n  type = auth\n  ipaddr = 127.0.0.1\n  port = {p}\n }}\n authorize {{\n }}\n}}\n' >r/sites-enabled/x; exec freeradius -f -d $PWD/r",
                   "echo 'User-Name = a, User-Password = b' | radclient -t 2 -r 1 127.0.0.1:{p} auth testing123 2>&1", "Access-Reject"),
    "pdns": ("echo 'zone \"x.test\" {{ type master; file \"'$PWD'/zone\"; }};' >n.conf; exec pdns_server --config-dir=$PWD --launch=bind --bind-config=$PWD/n.conf --local-address=127.0.0.1 --local-port={p} --socket-dir=$PWD --guardian=no --daemon=no", "dig +short -p {p} @127.0.0.1 a.x.test", r"10\.1\.2\.3"),
    "knot": ("printf 'server:\n    listen: 127.0.0.1@{p}\n    rundir: %s\ndatabase:\n    storage: %s/d\nzone:\n  - domain: x.test\n    storage: %s\n    file: zone\n' $PWD $PWD $PWD >k.conf; exec knotd -c k.conf", "dig +short -p {p} @127.0.0.1 a.x.test", r"10\.1\.2\.3"),
    "bird": ("printf 'router id 10.1.2.3;\nprotocol device {{ }}\nprotocol static {{ ipv4; route 10.9.0.0/16 blackhole; }}\n' >b.conf; exec bird -f -c b.conf -s $PWD/s", "birdc -s s show route", r"10\.9\.0\.0/16"),
    "znc": ("mkdir -p z/configs; printf 'Version = 1.8.2\n<Listener l>\n Port = {p}\n Host = 127.0.0.1\n IPv4 = true\n IPv6 = false\n SSL = false\n</Listener>\n<User u>\n Admin = true\n <Pass p>\n  Method = MD5\n  Hash = 00000000000000000000000000000000\n  Salt = x\n </Pass>\n</User>\n' >z/configs/znc.conf; exec znc -f -r -d $PWD/z", "curl -s http://127.0.0.1:{p}/ | head -c 1000", "(?i)znc"),
    "ngircd": ("printf '[Global]\nName = x.test\nInfo = x\nListen = 127.0.0.1\nPorts = {p}\nServerUID = %s\nServerGID = %s\n[Options]\nPAM = no\nIdent = no\n' $(id -u) $(id -g) >n.conf; exec ngircd -n -f $PWD/n.conf", r"(printf 'NICK a\r\nUSER a a a a\r\n'; sleep 1) | nc -w 2 127.0.0.1 {p}", "(?i)x.test"),
    "murmur": ("printf 'database=%s/d\nport={p}\nhost=127.0.0.1\nlogfile=%s/log\nice=\nbonjour=false\nuname=%s\n' $PWD $PWD $(id -un) >m.ini; exec murmurd -fg -ini m.ini", "echo | openssl s_client -connect 127.0.0.1:{p} 2>/dev/null | head", "CONNECTED"),
    "tor": ("touch torrc; exec tor -f torrc --DataDirectory $PWD/t --DisableNetwork 1 --SocksPort {p} --ControlPort {q}", r"printf 'AUTHENTICATE\r\nGETINFO version\r\nQUIT\r\n' | nc -w 2 127.0.0.1 {q}", "250-version="),
    "i2pd": ("exec i2pd --datadir=$PWD/i --conf=/dev/null --loglevel=none --port={q} --http.port={p} --httpproxy.enabled=false --socksproxy.enabled=false --sam.enabled=false", "curl -s http://127.0.0.1:{p}/", "(?i)i2p"),
    "snmpd": ("printf 'rocommunity public\nagentaddress udp:127.0.0.1:{p}\nsysContact forty\n' >s.conf; exec snmpd -f -C -c s.conf -Lo -p $PWD/pid -I -smux", r"printf '\x30\x26\x02\x01\x01\x04\x06public\xa0\x19\x02\x01\x01\x02\x01\x00\x02\x01\x00\x30\x0e\x30\x0c\x06\x08\x2b\x06\x01\x02\x01\x01\x04\x00\x05\x00' | nc -u -w 1 127.0.0.1 {p} | strings", "forty"),
    "nghttpx": ("exec nghttpx -f '127.0.0.1,{p};no-tls' -b 127.0.0.1,1 -n 2", "curl -si http://127.0.0.1:{p}/", "(?i)nghttpx|502|503"),
    "h2o": ("printf 'listen:\n  host: 127.0.0.1\n  port: {p}\n%s\nhosts:\n  x:\n    paths:\n      /:\n        file.dir: %s\n' \"$([ $(id -u) != 0 ] || echo user: root)\" $PWD >h.conf; exec h2o -c h.conf", "curl -s http://127.0.0.1:{p}/page.html", "a heading"),
    "coturn": ("exec turnserver -n -L 127.0.0.1 -p {p} --no-tls --no-dtls --no-cli --userdb=$PWD/db --pidfile=$PWD/pid --log-file=stdout", r"printf '\x00\x01\x00\x00\x21\x12\xa4\x42abcdefghijkl' | nc -u -w 1 127.0.0.1 {p} | xxd | head -1", "0101"),
    "pgbouncer": ("printf '[databases]\nx = host=127.0.0.1\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {p}\nunix_socket_dir =\nauth_type = any\nadmin_users = x\nuser = %s\nlogfile = %s/log\n' nobody $PWD >p.ini; [ $(id -u) = 0 ] && chmod 777 . || sed -i '/^user/d' p.ini; exec pgbouncer p.ini", r"printf '\x00\x00\x00\x08\x04\xd2\x16\x2f' | nc -w 2 127.0.0.1 {p} | head -c 1 | xxd", "4e|53"),
    "nfs-ganesha": ("mkdir x; printf 'NFS_CORE_PARAM {{ Protocols = 4; NFS_Port = {p}; Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; }}\nNFSV4 {{ Graceless = true; RecoveryRoot = %s; RecoveryBackend = fs; }}\nEXPORT {{ Export_Id = 1; Path = %s/x; Pseudo = /x; Access_Type = RW; FSAL {{ Name = VFS; }} }}\n' $PWD $PWD >g.conf; exec ganesha.nfsd -F -f $PWD/g.conf -p $PWD/pid -L $PWD/log",
                    r"printf '\x80\x00\x00\x28\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x02\x00\x01\x86\xa3\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00' | nc -w 2 127.0.0.1 {p} | xxd | head -1", "0000 0007 0000 0001"),
    "jupyter": ("HOME=$PWD exec jupyter-notebook --no-browser --allow-root --ip=127.0.0.1 --port={p} --NotebookApp.token= --NotebookApp.password= --NotebookApp.disable_check_xsrf=True", "k=$(curl -s http://127.0.0.1:{p}/api/kernels); [ \"$k\" = '[]' ] && curl -s -X POST http://127.0.0.1:{p}/api/kernels -d '{{\"name\": \"python3\"}}'; curl -s http://127.0.0.1:{p}/api/kernels", "execution_state"),
    "xvfb": ("Xvfb :{p} -screen 0 800x600x24 -nolisten tcp & export DISPLAY=:{p}; while ! xwininfo -root >/dev/null 2>&1; do sleep 0.2; done; openbox & xeyes & exec xterm -e sh -c 'i=0; while sleep 0.2; do i=$((i + 1)); printf \"\\033]0;count $i\\007\"; done'",
             "a=$(xwininfo -display :{p} -root -tree | grep -o 'count [0-9]*' | head -1); sleep 1; b=$(xwininfo -display :{p} -root -tree | grep -o 'count [0-9]*' | head -1); xwininfo -display :{p} -root -tree | grep -q xeyes && test -n \"$a\" -a \"$a\" != \"$b\" && echo goes on", "goes on"),
    "vnc": ("Xtigervnc :{p} -rfbport {q} -SecurityTypes None -localhost & export DISPLAY=:{p}; while ! xwininfo -root >/dev/null 2>&1; do sleep 0.2; done; exec xterm", "(printf 'RFB 003.008\n'; sleep 1) | nc -w 2 127.0.0.1 {q} | head -c 12; xwininfo -display :{p} -root -tree | grep xterm", "RFB 003.008(.|\\n)*xterm"),
    "soffice": ("HOME=$PWD exec soffice --headless --nologo \"--accept=socket,host=127.0.0.1,port={p};urp;\" -env:UserInstallation=file://$PWD/lo", "nc -w 2 127.0.0.1 {p} </dev/null | strings", "UrpProtocolProperties"),
    "dosbox": ("printf '[cpu]\ncycles=500\n[sdl]\n[mixer]\nnosound=true\n[autoexec]\nmount c .\nc:\n:top\necho x >>beat\ngoto top\n' >d.conf; printf 'echo x >>c:\\\\beat\r\nl.bat\r\n' >l.bat; sed -i -e '/^:top/d' -e '/^echo x/d' -e 's/^goto top/l.bat/' d.conf; SDL_VIDEODRIVER=dummy SDL_AUDIODRIVER=dummy exec dosbox -conf d.conf", "a=$(cat beat BEAT 2>/dev/null | wc -c); sleep 1; b=$(cat beat BEAT 2>/dev/null | wc -c); test $b -gt $a && echo goes on", "goes on"),
    "ssh-agent": ("exec setpriv --no-new-privs ssh-agent -D -a $PWD/agent", "test -e k || ssh-keygen -q -t ed25519 -N '' -C forty -f k; export SSH_AUTH_SOCK=$PWD/agent; ssh-add -l | grep forty || {{ ssh-add k; ssh-add -l; }}", "forty"),
    "gpg-agent": ("mkdir -m 700 g; GNUPGHOME=$PWD/g exec gpg-agent --daemon sleep 3600", "GNUPGHOME=$PWD/g gpg-connect-agent --no-autostart 'GETINFO pid' /bye", "D \\d+"),
    "vsftpd": ("printf 'listen=YES\nlisten_port={p}\nlisten_address=127.0.0.1\nanonymous_enable=NO\nlocal_enable=YES\nrun_as_launching_user=YES\nsecure_chroot_dir=%s\nbackground=NO\n' $PWD >v.conf; exec vsftpd v.conf", "nc -w 2 127.0.0.1 {p} </dev/null", "220 "),
    "inspircd": ("printf '<config format=\"xml\"><server name=\"x.test\" description=\"x\" network=\"x\"><admin name=\"x\" email=\"x\"><bind address=\"127.0.0.1\" port=\"{p}\" type=\"clients\"><connect allow=\"*\" timeout=\"60\"><pid file=\"%s/pid\">' $PWD >i.conf; exec inspircd --nofork --config=$PWD/i.conf --runasroot",
                 r"(printf 'NICK a\r\nUSER a a a a\r\n'; sleep 1) | nc -w 2 127.0.0.1 {p}", "(?i)x.test"),
}
PAGE = "<html><head><title>t</title></head><body><h1>a heading</h1></body></html>\n"
MAIL = "From a@b Mon Jan  1 00:00:00 2024\nFrom: a@b\nTo: c@d\nSubject: a subject\n\ntext\n\n"


def tool_of(command):
    words = re.findall(r"exec (?:setpriv --no-new-privs )?([\w./-]+)", command)
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
    if name == "squid" and os.getuid() == 0:
        raise Skip("squid gives root's rights up and can't reach this folder then")
    if name in ("ssh-agent", "gpg-agent") and os.getuid() != 0:
        raise Skip("it gives up being dumpable, and is refused by name (docs/programs.md)")
    if name in ("cron", "exim", "freeradius", "icecast") and os.getuid() != 0:
        raise Skip("busybox's crond is root's, and so are the settings that Debian gives the others")
    os.chmod(t.folder, 0o711)  # root's servers become somebody else
    ports = {"p": t.random.randrange(12000, 15000), "q": t.random.randrange(15000, 18000)}
    program = t.launch(["sh", "-c", command.format(**ports)], name=name, env={"HOME": t.work, "JAIL": "-j none"})

    def asked():
        code, out, err = t.run(["bash", "-c", ask.format(**ports)], timeout=30)
        return re.search(answer, out)

    # cron looks once a minute.
    longer = 60 if name == "cron" else 0
    t.wait_until(asked, f"{name} to answer", 40 + longer)
    for number in range(t.rounds):
        t.sleep(0.5)
        program, _ = t.cycle(program, number)
        t.wait_until(asked, f"{name} to answer after restart {number + 1}", 20 + longer)
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
    return table.each(t, __file__, t.arguments.names or [*PROMPTS, *SCREENS, *SERVERS])

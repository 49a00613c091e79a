#!/bin/bash
# programs.sh REGION_TOOL LIBRARY: programs of others, run as if they were restored with virtual ids, where every process
# and thread that they make has a number which somebody goes by already; their output must be what it is without us.
# That they come to their end without us, and had such numbers with us, is checked as well: two failures are alike, too.
set -u
tool=$1 library=$2
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failed=0
check() { # name, its last line, program...
    local name=$1 last=$2 registered
    shift 2
    timeout 60 "$@" >"$folder/native" 2>&1 </dev/null
    local native=$?
    "$tool" create "$folder/region" || exit 1
    timeout 60 "$tool" run "$folder/region" "$library" "$@" >"$folder/member" 2>&1 </dev/null
    local member=$?
    registered=$("$tool" list "$folder/region" | grep -c 'virtual=3[0-9]\{6\} ')
    if [ $native != 0 ] || [ "$(tail -n 1 "$folder/native")" != "$last" ]; then
        echo "not ok $name: without us it ends with $native, and not with the line '$last'"
        tail -n 5 "$folder/native"
        failed=1
    elif [ "$registered" -lt 5 ]; then
        echo "not ok $name: $registered of its processes have registered with a number of somebody else's"
        failed=1
    elif [ $native = $member ] && cmp -s "$folder/native" "$folder/member"; then
        echo "ok $name"
    else
        echo "not ok $name: exit $member, without us $native"
        diff "$folder/native" "$folder/member"
        failed=1
    fi
}

shell='
sleep 0.2 & p=$!; kill -0 $p && echo alive; wait $p; echo waited $?
(exit 7); echo $?; x=$(echo sub; exit 3); echo $x $?
trap "echo usr" USR1; kill -USR1 $$; (kill -USR1 $$); sleep 0.1
cat /proc/$$/comm; test -d /proc/$$/task/$$ && echo task
(kill -TERM $(exec sh -c "echo \$PPID")) ; echo $?
seq 100000 | sort -n | tail -1
for i in 1 2 3 4 5 6 7 8; do (exit $i) & done; wait; echo all
{ sh -c "kill -9 \$\$"; echo $?; } 2>/dev/null
exec sh -c "test \$\$ = $$ && echo same pid"'
check bash "same pid" bash -c "$shell"
check dash "same pid" dash -c "$shell"
[ -x /usr/bin/zsh ] && check zsh "same pid" zsh -fc "$shell"
# A job is given the time to register before it is killed or stopped: on a busy machine it might not, and would be missing in the count.
check "bash with job control" "done" bash -c 'set -m; sleep 100 & sleep 0.2; kill %1; wait %1; echo $?; sleep 0.1 | cat; echo $?
sleep 100 & sleep 0.2; kill -STOP %%; sleep 0.1; jobs | grep -c Stopped; kill -KILL %%; wait 2>/dev/null; echo done'
check perl 1 perl -e '$| = 1; my $p = fork; if (!$p) { exit 3 } print waitpid($p, 0) == $p, $? >> 8, "\n";
print `echo ticks`; system("true"); print "$?\n"; $SIG{CHLD} = sub { print "child\n" }; $p = fork; exit if !$p;
sleep 2; print wait() == $p, "\n"; print kill(0, $$), "\n"; $SIG{CHLD} = "DEFAULT"; open(F, "sleep 0.1; echo x|"); print <F>; close F;
setpgrp(0, 0); print getpgrp() == $$, "\n"; print getppid() > 1, "\n"'
cat >"$folder/many.py" <<'PYTHON'
import concurrent.futures, multiprocessing, os, signal, subprocess, threading
def square(x): return x * x
def tell(queue): queue.put((os.getpid(), os.getppid()))
if __name__ == "__main__":
    # Blocked before there is any thread: python's join() comes back when a thread has let go of its lock, and not when it
    # has ended, and the kernel gives a signal of the whole process to any thread that doesn't block it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with context.Pool(4) as pool: print(method, sum(pool.map(square, range(100))))
        queue = context.Queue()
        child = context.Process(target=tell, args=(queue,))
        child.start()
        print(queue.get()[0] == child.pid)
        child.join()
        print(child.exitcode)
    print(subprocess.check_output(["echo", "hello"]), subprocess.run("exit 4", shell=True).returncode)
    child = subprocess.Popen(["sleep", "100"]); child.terminate(); print(child.wait())
    child = subprocess.Popen(["sleep", "100"], start_new_session=True)
    print(os.getsid(child.pid) == child.pid); os.killpg(child.pid, 9); print(child.wait())
    found = []
    threads = [threading.Thread(target=lambda: found.append(open("/proc/self/task/%d/comm" % threading.get_native_id()).read()))
               for _ in range(20)]
    [t.start() for t in threads]; [t.join() for t in threads]; print(len(found))
    with concurrent.futures.ProcessPoolExecutor(3) as pool: print(sum(pool.map(square, range(50))))
    pid = os.fork()
    if pid == 0: os._exit(5)
    print(os.waitpid(pid, 0) == (pid, 5 << 8))
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 6"], os.environ); print(os.waitpid(pid, 0) == (pid, 6 << 8))
    signal.signal(signal.SIGUSR1, lambda *_: print("usr1", flush=True))
    os.kill(os.getpid(), signal.SIGUSR1); signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
    pid = os.fork()
    if pid == 0: os.kill(os.getppid(), signal.SIGUSR2); os._exit(0)
    print(signal.sigwaitinfo({signal.SIGUSR2}).si_pid == pid); os.waitpid(pid, 0)
PYTHON
check python3 True /usr/bin/python3 "$folder/many.py"
mkdir "$folder/make"
for i in 1 2 3 4 5 6 7 8; do echo "int f$i(void) { return $i; }" >"$folder/make/f$i.c"; done
printf 'all: %s\n\t@echo linked\n%%.o: %%.c\n\t@cc -c $< -o $@\n' "$(cd "$folder/make" && ls *.c | sed 's/c$/o/' | tr '\n' ' ')" \
    >"$folder/make/Makefile"
check make linked make -B -j3 -C "$folder/make" --no-print-directory
exit $failed

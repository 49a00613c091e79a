"""Programs without libcairn.so: static C with threads, timers and children by raw calls, one without any libc, busybox' shell and
mixed trees of it and bash, musl (dynamic and static), and, where they are installed, Go and Rust: as undisturbed"""
# ci: exact
import os
import shutil
from cairn_test import Failure, same_as_undisturbed

STATIC_C = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static volatile sig_atomic_t alarms;
static void on_alarm(int signal) { (void)signal; ++alarms; }
static int work[2], done[2];
static void* helper(void* nothing) {
    char text[64];
    ssize_t n;
    while ((n = read(work[0], text, sizeof text)) > 0)
        for (ssize_t at = 0; at < n; ++at) {
            char answer = text[at] + 1;
            if (write(done[1], &answer, 1) != 1) abort();
        }
    return nothing;
}
static void nap(long ms) {
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0) {}
}
int main(void) {
    pthread_t thread;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, 0);
    struct itimerval timer = {{0, 50000}, {0, 50000}};
    setitimer(ITIMER_REAL, &timer, 0);
    const pid_t pid = getpid(), group = getpgrp();
    if (pipe(work) != 0 || pipe(done) != 0 || pthread_create(&thread, 0, helper, 0) != 0) return 2;
    for (int i = 0; i < 25 * TIMES; ++i) {
        char letter = (char)('a' + i % 25), answer = 0;
        if (write(work[1], &letter, 1) != 1 || read(done[0], &answer, 1) != 1) return 3;
        const long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (child == 0) {
            nap(60);
            _exit(getppid() == pid ? i % 7 : 99);
        }
        nap(20);
        int status = -1;
        pid_t got;
        while ((got = wait(&status)) < 0) {}
        printf("%d %c %d %s %s\n", i, answer, WEXITSTATUS(status), got == child ? "the child" : "another",
               getpid() == pid && getpgrp() == group ? "the same" : "changed");
        fflush(stdout);
    }
    close(work[1]);
    pthread_join(thread, 0);
    puts(alarms > 5 ? "alarms" : "no alarms");
    return 0;
}
"""

# Neither libc nor a thread pointer.
BARE_C = r"""
#include <sys/syscall.h>
#include <time.h>
static long call(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}
void _start(void) {
    for (int i = 0; i < 26 * TIMES; ++i) {
        char line[2] = {(char)('a' + i % 26), '\n'};
        struct timespec time = {0, 80000000};
        call(SYS_nanosleep, (long)&time, (long)&time, 0);
        call(SYS_write, 1, (long)line, 2);
    }
    call(SYS_exit_group, 0, 0, 0);
}
"""

BUSYBOX = r"""
i=0
while [ $i -lt $((20 * TIMES)) ]; do
    i=$((i+1))
    x=$(echo $i | busybox awk '{ print $1 * $1 }')
    (busybox sleep 0.05; exit $((i % 5))) &
    wait $!
    echo "$i $x $?"
done
"""

# bash starts busybox, which starts bash, which starts a static program.
MIXED = r"""
for i in $(seq $((10 * TIMES))); do
    busybox sh -c 'x=$(bash -c "echo \$(( '$i' * 7 )); sleep 0.05"); echo "busybox $x"; exit 3'
    echo "$i $?"
done
./static
busybox sh -c 'bash -c "busybox sh -c \"exec ./static\""' | busybox md5sum
"""

GO = r"""
package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	var served int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		atomic.AddInt64(&served, 1)
		fmt.Fprintf(w, "hello %s", r.URL.Path)
	}))
	read, write, _ := os.Pipe()
	var asleep sync.WaitGroup
	for i := 0; i < 100; i++ { // in system calls
		asleep.Add(1)
		go func() { defer asleep.Done(); b := make([]byte, 1); read.Read(b) }()
	}
	pid := os.Getpid()
	for i := 0; i < 20*TIMES; i++ {
		var all sync.WaitGroup
		var wrong int64
		for j := 0; j < 8; j++ {
			all.Add(1)
			go func(j int) {
				defer all.Done()
				for k := 0; k < 10; k++ {
					path := fmt.Sprintf("/%d/%d/%d", i, j, k)
					answer, err := http.Get(server.URL + path)
					if err != nil {
						fmt.Println(err)
						atomic.AddInt64(&wrong, 1)
						continue
					}
					body, _ := io.ReadAll(answer.Body)
					answer.Body.Close()
					if string(body) != "hello "+path {
						atomic.AddInt64(&wrong, 1)
					}
				}
			}(j)
		}
		garbage := 0
		for j := 0; j < 50; j++ {
			garbage += len(make([]byte, 100000))
		}
		runtime.GC()
		all.Wait()
		out, err := exec.Command("sh", "-c", fmt.Sprintf("echo child %d; exit %d", i, i%3)).Output()
		fmt.Printf("%d %d %d %q %v %v\n", i, wrong, garbage, out, err, os.Getpid() == pid)
		time.Sleep(50 * time.Millisecond)
	}
	write.Write(make([]byte, 100))
	asleep.Wait()
	fmt.Println("served", served)
}
"""

RUST = r"""
use std::io::Write;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
fn main() {
    let (to, from) = mpsc::channel();
    let worker = thread::spawn(move || { let mut sum = 0u64; for x in from { sum += x; } sum });
    for i in 0..20u64 * TIMES {
        to.send(i * i).unwrap();
        let out = Command::new("sh").args(["-c", &format!("echo {}; exit {}", i, i % 4)]).output().unwrap();
        println!("{} {} {:?}", i, String::from_utf8_lossy(&out.stdout).trim(), out.status.code());
        std::io::stdout().flush().unwrap();
        thread::sleep(Duration::from_millis(60));
    }
    drop(to);
    println!("{}", worker.join().unwrap());
}
"""


def longer(t, text):
    """More rounds than a few need programs that run for as much longer."""
    return text.replace("TIMES", str(max(1, t.rounds // 5)))


def built(t, name, text, command):
    path = os.path.join(t.folder, name)
    text = longer(t, text)
    source = f"{path}.{'go' if command[0] == 'go' else 'rs' if command[0] == 'rustc' else 'c'}"
    with open(source, "w") as file:
        file.write(text)
    environment = {"GOCACHE": os.path.join(t.folder, "gocache"), "GO111MODULE": "off", "HOME": t.folder, "GOFLAGS": "-p=2"}
    code, _, errors = t.run(["env", *(f"{key}={value}" for key, value in environment.items() if command[0] == "go"),
                             *command, "-o", path, source], timeout=300)
    if code != 0:
        raise Failure(f"{name}: {errors}")
    os.chmod(path, 0o755)
    return path


def kinds(t):
    yield "static", lambda: [built(t, "static", STATIC_C, ["gcc", "-O1", "-w", "-static", "-pthread"])]
    yield "static-pie", lambda: [built(t, "static_pie", STATIC_C, ["gcc", "-O1", "-w", "-static-pie", "-pthread"])]
    yield "bare", lambda: [built(t, "bare", BARE_C, ["gcc", "-O1", "-w", "-static", "-nostdlib", "-fno-stack-protector"])]
    if shutil.which("busybox"):
        yield "busybox", lambda: ["busybox", "sh", "-c", longer(t, BUSYBOX)]
        yield "mixed", lambda: ["bash", "-c", longer(t, MIXED).replace("./static", built(t, "static", STATIC_C, ["gcc", "-O1", "-w", "-static", "-pthread"]))]
    if shutil.which("musl-gcc"):
        yield "musl", lambda: [built(t, "musl", STATIC_C, ["musl-gcc", "-O1", "-w"])]
        yield "musl-static", lambda: [built(t, "musl_static", STATIC_C, ["musl-gcc", "-O1", "-w", "-static"])]
    if shutil.which("go"):
        yield "go", lambda: [built(t, "go", GO, ["go", "build"])]
    if shutil.which("rustc"):
        yield "rust", lambda: [built(t, "rust", RUST, ["rustc", "-C", "target-feature=+crt-static", "--target", "x86_64-unknown-linux-gnu"])]


def test(t):
    wanted = t.arguments.names or (None if t.soak else ["static", "bare", "mixed", "musl"])
    for name, command in kinds(t):
        if wanted and name not in wanted:
            continue
        t.say(f"---- {name}")
        same_as_undisturbed(t, command(), at_once=True, seconds=max(2.0, t.rounds / 3))

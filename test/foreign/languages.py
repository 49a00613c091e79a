"""Interpreters and runtimes of other languages, those that are installed: a computation with garbage to collect, and what the language
is known for (threads, processes, coroutines, children), with the output of an undisturbed run."""
# ci: none (its packages are heavy: where they are installed)
import os
import shutil
import subprocess
from cairn_test import Skip, same_as_undisturbed

# Name: file, command, program. Twenty rounds of a tenth of a second and more.
LANGUAGES = {
    "ruby": ("p.rb", ["ruby"], r"""
require 'digest'
queue = Queue.new
digest = ""
thread = Thread.new { while (x = queue.pop); digest = Digest::MD5.hexdigest(digest + x.to_s); end }
1.upto(20) do |i|
  sum = (1..20000).map { |x| x * i }.sum
  queue << sum
  Process.wait(fork { exit!(i % 7) })
  puts "#{i} #{sum} #{$?.exitstatus}"
  $stdout.flush
  sleep 0.1
end
queue << nil
thread.join
puts digest
"""),
    "lua": ("p.lua", ["lua5.4"], r"""
local next = coroutine.wrap(function() local x = 1 while true do x = (x * 1103515245 + 12345) % 2147483648 coroutine.yield(x) end end)
for i = 1, 20 do
  local t = {}
  for j = 1, 20000 do t[j] = tostring(j * i) end
  print(i, #table.concat(t), next())
  io.flush()
  os.execute("sleep 0.1")
end
"""),
    "guile": ("p.scm", ["guile", "--no-auto-compile"], r"""
(use-modules (ice-9 threads))
(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
(do ((i 1 (+ i 1))) ((> i 20))
  (let ((f (call-with-new-thread (lambda () (fib 18)))))
    (display (list i (join-thread f) (length (iota (* i 1000)))))
    (newline) (force-output) (usleep 100000)))
"""),
    "sbcl": ("p.lisp", ["sbcl", "--script"], r"""
(loop for i from 1 to 20 do
  (let ((l (loop for j below 100000 collect (* i j))))
    (format t "~a ~a~%" i (reduce #'+ l)) (finish-output) (sleep 0.1)))
"""),
    "clisp": ("p.clisp", ["clisp"], r"""
(loop for i from 1 to 20 do (format t "~a ~a~%" i (loop for j below 20000 sum (* i j))) (finish-output) (sleep 0.1))
"""),
    "racket": ("p.rkt", ["racket"], r"""#lang racket/base
(for ([i (in-range 1 21)])
  (define c (make-channel))
  (thread (lambda () (channel-put c (for/sum ([j 100000]) (* i j)))))
  (printf "~a ~a\n" i (channel-get c)) (flush-output) (sleep 0.1))
"""),
    # It has a sigaction of its own, which calls the next one of that name.
    "erlang": ("p.escript", ["escript"], r"""#!/usr/bin/env escript
main(_) ->
    Self = self(),
    loop(1, [spawn(fun() -> square(Self) end) || _ <- lists:seq(1, 100)]).
square(To) -> receive {X} -> To ! {result, X * X}, square(To) end.
loop(21, _) -> ok;
loop(I, Workers) ->
    [W ! {I + N} || {W, N} <- lists:zip(Workers, lists:seq(1, 100))],
    io:format("~p ~p~n", [I, lists:sum([receive {result, V} -> V end || _ <- Workers])]),
    timer:sleep(100),
    loop(I + 1, Workers).
"""),
    "elixir": ("p.exs", ["elixir"], r"""
Enum.each(1..20, fn i ->
  task = Task.async(fn -> Enum.sum(Enum.map(1..100_000, &(&1 * i))) end)
  IO.puts("#{i} #{Task.await(task, 60_000)}")
  Process.sleep(100)
end)
"""),
    "ocaml": ("p.ml", ["ocaml", "unix.cma"], r"""
let () = for i = 1 to 20 do
  let l = List.init 100000 (fun j -> i * j) in
  Printf.printf "%d %d\n%!" i (List.fold_left (+) 0 l);
  ignore (Unix.select [] [] [] 0.1)
done
"""),
    "php": ("p.php", ["php"], r"""<?php
for ($i = 1; $i <= 20; $i++) {
  $a = [];
  for ($j = 0; $j < 20000; $j++) $a[] = md5("$i.$j");
  echo $i, " ", md5(implode($a)), "\n";
  usleep(100000);
}
"""),
    "prolog": ("p.pl", ["swipl"], r"""
:- initialization(main).
main :- forall(between(1, 20, I), (numlist(1, 20000, L), foldl([X, A, B]>>(B is A + X * I), L, 0, S),
                                   format("~w ~w~n", [I, S]), flush_output, sleep(0.1))), halt.
"""),
    "gawk": ("p.awk", ["gawk", "-f"], r"""
BEGIN { for (i = 1; i <= 20; i++) { s = 0; for (j = 0; j < 50000; j++) { a[j] = j * i; s += a[j] } print i, s; fflush(); system("sleep 0.1") } }
"""),
    "tcl": ("p.tcl", ["tclsh"], r"""
proc step {i} {
  set s 0
  for {set j 0} {$j < 50000} {incr j} {incr s [expr {$i * $j}]}
  puts "$i $s"; flush stdout
  if {$i < 20} {after 100 [list step [expr {$i + 1}]]} else {exit}
}
step 1
vwait forever
"""),
    "emacs": ("p.el", ["emacs", "--script"], r"""
(dotimes (n 20)
  (princ (format "%d %d\n" n (apply '+ (mapcar (lambda (x) (* x n)) (number-sequence 1 20000)))))
  (sleep-for 0.1))
"""),
    "R": ("p.R", ["Rscript"], r"""
set.seed(1)
for (i in 1:20) { m <- matrix(rnorm(40000), 200); cat(i, format(sum(m %*% m), digits = 12), "\n"); flush(stdout()); Sys.sleep(0.1) }
"""),
    "octave": ("p.m", ["octave", "--no-gui", "--quiet"], r"""
A = reshape(mod((1:40000) * 7919, 1000), 200, 200);
for i = 1:20, B = A * A + i; printf("%d %.10g\n", i, sum(sum(B))); fflush(stdout); pause(0.1); end
"""),
    "go": ("p.go", ["./p"], r"""
package main

import ("fmt"; "net"; "os/exec"; "time")

func main() {
	listener, _ := net.Listen("tcp", "127.0.0.1:0")
	go func() {
		for { c, err := listener.Accept(); if err != nil { return }
			go func() { b := make([]byte, 8); for { n, err := c.Read(b); if err != nil { return }; c.Write(b[:n]) } }() }
	}()
	c, _ := net.Dial("tcp", listener.Addr().String())
	for i := 1; i <= 20; i++ {
		sums := make(chan int)
		for g := 0; g < 50; g++ { go func(g int) { s := make([]int, 10000); t := 0; for j := range s { s[j] = j * g * i; t += s[j] }; sums <- t }(g) }
		t := 0
		for g := 0; g < 50; g++ { t += <-sums }
		fmt.Fprintf(c, "%8d", i)
		b := make([]byte, 8)
		c.Read(b)
		said, _ := exec.Command("echo", fmt.Sprint(i)).Output()
		fmt.Println(i, t, string(b), string(said[:len(said)-1]))
		time.Sleep(100 * time.Millisecond)
	}
}
"""),
}


def prepare_go(folder):
    subprocess.run(["go", "build", "-o", "p", "p.go"], cwd=folder, check=True,
                   env=dict(os.environ, GOCACHE=os.path.join(folder, "cache"), GOFLAGS="-buildvcs=false"))
    shutil.rmtree(os.path.join(folder, "cache"))


def test(t):
    there = [name for name, (_, command, _) in LANGUAGES.items() if shutil.which("go" if name == "go" else command[0])]
    if not there:
        raise Skip("none of these languages is installed")
    for name in LANGUAGES:
        if name not in there:
            t.skip_part(name, "isn't installed")
    t.say(f"{len(there)} of {len(LANGUAGES)} languages are installed: {' '.join(there)}")
    for name in there:
        file, command, program = LANGUAGES[name]

        def prepare(folder, name=name, file=file, program=program):
            with open(os.path.join(folder, file), "w") as out:
                out.write(program.lstrip("\n"))
            if name == "go":
                prepare_go(folder)

        t.say(name)
        same_as_undisturbed(t, command if name == "go" else [*command, file], prepare=prepare, timeout=300, at_once=True)

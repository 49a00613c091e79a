"""java: threads under locks, garbage of several collectors, timers, a server, a child process."""
# ci: none (its packages are heavy: where they are installed)
import glob
import os
import pwd
import shutil
from cairn_test import Skip, check, same_as_undisturbed

PROGRAM = r"""
import java.io.*;
import java.net.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;

public class Program {
    static long garbage(int seed) {
        Random random = new Random(seed);
        List<int[]> kept = new ArrayList<>();
        long sum = 0;
        for (int i = 0; i < 4000; ++i) {
            int[] block = new int[1000 + random.nextInt(4000)];
            block[i % block.length] = i;
            kept.add(block);
            if (kept.size() > 300) kept.subList(0, 200).clear();
            sum += block.length;
            if (i % 50 == 0) try { Thread.sleep(10); } catch (InterruptedException e) { throw new RuntimeException(e); }
        }
        for (int[] block : kept) for (int each : block) sum += each;
        return sum;
    }

    static String serve() throws Exception {
        ServerSocket server = new ServerSocket(0, 10, InetAddress.getByName("127.0.0.1"));
        Thread echo = new Thread(() -> {
            try (Socket one = server.accept();
                 BufferedReader in = new BufferedReader(new InputStreamReader(one.getInputStream()));
                 PrintWriter out = new PrintWriter(one.getOutputStream(), true)) {
                for (String line; (line = in.readLine()) != null;) out.println(line.toUpperCase());
            } catch (IOException e) { throw new RuntimeException(e); }
        });
        echo.start();
        int good = 0;
        try (Socket one = new Socket("127.0.0.1", server.getLocalPort());
             BufferedReader in = new BufferedReader(new InputStreamReader(one.getInputStream()));
             PrintWriter out = new PrintWriter(one.getOutputStream(), true)) {
            for (int i = 0; i < 100; ++i) {
                out.println("line " + i);
                if (in.readLine().equals("LINE " + i)) ++good;
                Thread.sleep(10);
            }
        }
        echo.join();
        return "served " + good;
    }

    static String child() throws Exception {
        Process cat = new ProcessBuilder("cat").start();
        int good = 0;
        try (BufferedReader in = cat.inputReader(); PrintWriter out = new PrintWriter(cat.outputWriter(), true)) {
            for (int i = 0; i < 60; ++i) {
                out.println("to cat " + i);
                if (in.readLine().equals("to cat " + i)) ++good;
                Thread.sleep(15);
            }
        }
        return "child " + good + " " + cat.waitFor();
    }

    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(8);
        List<Future<?>> results = new ArrayList<>();
        for (int i = 0; i < 3; ++i) { int seed = i; results.add(pool.submit(() -> garbage(seed))); }
        results.add(pool.submit(Program::serve));
        results.add(pool.submit(Program::child));
        ScheduledExecutorService timers = Executors.newScheduledThreadPool(2);
        CountDownLatch ticks = new CountDownLatch(100);
        timers.scheduleAtFixedRate(ticks::countDown, 0, 10, TimeUnit.MILLISECONDS);
        long[] counter = {0};
        Object lock = new Object();
        Thread[] counters = new Thread[4];
        for (int i = 0; i < counters.length; ++i) {
            counters[i] = new Thread(() -> {
                for (int k = 0; k < 200; ++k) {
                    synchronized (lock) { for (int n = 0; n < 1000; ++n) ++counter[0]; }
                    java.util.concurrent.locks.LockSupport.parkNanos(3_000_000);
                }
            });
            counters[i].start();
        }
        for (Thread each : counters) each.join();
        ticks.await();
        System.out.println("counted " + counter[0]);
        for (Future<?> each : results) System.out.println(each.get());
        timers.shutdownNow();
        pool.shutdown();
        System.gc();
        System.out.println("ended " + pool.awaitTermination(10, TimeUnit.SECONDS));
    }
}
"""


def without_counters(t, argv):
    """The file of its counters, which it has mapped, is gone at the restart, as after a reboot."""
    folder = f"/tmp/hsperfdata_{pwd.getpwuid(os.geteuid()).pw_name}"
    if os.path.exists(folder) and os.stat(folder).st_uid != os.geteuid():
        t.say(f"{folder} is another's, as in a user namespace: java has no such file")
        return
    program = t.launch(argv)
    t.wait_members(1)
    t.sleep(1.0)
    files = [path for member in t.members() for path in glob.glob(f"/tmp/hsperfdata_*/{member['pid']}")
             if os.stat(path).st_uid == os.geteuid()]
    check(len(files) == 1, f"files of java's counters: {files}")
    t.checkpoint("--kill")
    t.pull_the_plug()
    os.unlink(files[0])
    program = t.restart()
    with open(program.errors) as file:
        said = file.read()
    check(f"{files[0]}, which is written to by a mapping, is gone: made again" in said, said)
    check(os.path.exists(files[0]), f"{files[0]} isn't there again")
    program.expect(r"ended true", timeout=120)
    program.expect_exit(0)
    check(not os.path.exists(files[0]), f"{files[0]} was left behind")


def test(t):
    if not shutil.which("javac"):
        raise Skip("javac isn't installed")
    with open(os.path.join(t.folder, "Program.java"), "w") as file:
        file.write(PROGRAM)
    code, out, err = t.run(["javac", "-d", t.folder, os.path.join(t.folder, "Program.java")], timeout=120)
    check(code == 0, f"javac: {out}{err}")
    for collector in ("G1", "Serial", "Parallel") + (("Z", "Shenandoah") if t.soak else ()):
        t.say(f"collector {collector}")
        # A virtual machine that ends removes the file of its counters in /tmp: what is done after the checkpoint stays done.
        same_as_undisturbed(t, ["java", "-cp", t.folder, f"-XX:+Use{collector}GC", "-Xmx256m", "Program"],
                            rounds=t.rounds if collector == "G1" or t.soak else 1, seconds=1.5, at_once=True)
    without_counters(t, ["java", "-cp", t.folder, "-Xmx256m", "Program"])

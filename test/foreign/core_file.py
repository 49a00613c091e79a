"""A checkpoint's processes as core files (`cairn inspect --core`): gdb shows the same stacks and variables in them as in the living programs, a threaded one in C++ and python3, before and
after a restart. `cairn inspect --stacks` names the same functions."""
# ci: exact
import difflib
import json
import os
import re
import shutil
from cairn_test import check

NEEDS = ["/usr/bin/gdb", "/usr/bin/c++"]

C_SOURCE = """#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>
struct node { int value; struct node *next; };
struct node *list;
char *shared;
double wide = 1.5;
static int sink(int depth, double x) {
    if (depth == 0) {
        for (;;) {
            asm volatile("movsd %0, %%xmm7" : : "m"(x) : "xmm7");
            pause();
        }
    }
    return sink(depth - 1, x * 2) + depth;
}
namespace inner {
template <class T>
inline __attribute__((always_inline)) T twice(T x, int depth) { return sink(depth, x) + x; }
}
static void *run(void *depth) { return (void *)(long)inner::twice(wide, (int)(long)depth); }
int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 5; ++i) {
        auto *fresh = (struct node *)malloc(sizeof(struct node));
        fresh->value = i * i;
        fresh->next = list;
        list = fresh;
    }
    shared = (char *)mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snprintf(shared + 4096, 100, "in shared memory");
    for (long i = 0; i < 4; ++i)
        pthread_create(&threads[i], 0, run, (void *)(i + 3));
    usleep(200000);
    puts("READY");
    fflush(stdout);
    for (int i = 0; i < 4; ++i)
        pthread_join(threads[i], 0);
}
"""

PY_SOURCE = """import os, threading, time
never = threading.Event()
def inner(n):
    if n == 0:
        never.wait()
    inner(n - 1)
for each in range(3):
    threading.Thread(target=inner, args=(each,)).start()
time.sleep(0.3)
print("READY", flush=True)
never.wait()
"""

ASKED = ["thread apply all bt", "p list->next->next->value", "p (char *)shared + 4096", "thread apply all p $xmm7", "thread apply all p $rsp"]


def seen_by_gdb(t, *whom, asked):
    """What it says of stacks and values, thread by thread. A core has no names of threads; and gdb before 14 warns of the extended state of AMD's
    processors, which is shorter than Intel's, in the kernel's cores as well."""
    argv = ["gdb", "-batch", "-nx", *whom]
    for each in asked:
        argv += ["-ex", each]
    code, out, err = t.run(argv, timeout=120)
    check(code == 0, f"{argv}: {code} {err}")
    out = re.sub(r"^warning: .*\n", "", out, flags=re.M)
    out = re.sub(r'(LWP \d+)\) "[^"]*"|(LWP \d+) "[^"]*"\)', lambda match: (match[1] or match[2]) + ")", out[out.find("\nThread "):])
    # gdb names living threads by the kernel's ids and those of a core by the program's, which are others with virtual ids: they are counted.
    ids = sorted({int(each) for each in re.findall(r"LWP (\d+)", out)})
    out = re.sub(r"LWP (\d+)", lambda match: f"LWP {ids.index(int(match[1]))}", out)
    threads = sorted(re.sub(r"^Thread \d+ ", "", stack.strip()) for stack in re.findall(r"^Thread \d+ .*\n(?:#.*\n)+", out, re.M))
    return threads + [line for line in out.splitlines() if re.match(r"\$\d", line)]


def core_of(t, name, image):
    path = os.path.join(t.work, name)
    code, out, err = t.run([t.cairn, "inspect", "--core", path, image])
    check(code == 0 and os.path.basename(path) in out, f"inspect --core: {code} {out} {err}")
    return path


def plain(function):
    """Libc has several names for each of its functions; gdb says the whole name of what is inlined."""
    name = re.sub(r"<.*", "", re.sub(r"\.(constprop|part|isra|cold)\.?\d*", "", function)).split("::")[-1]
    return re.sub(r"^_*(GI_+|libc_|new_)?_*|_impl$", "", name)


def compare_stacks(t, living):
    """gdb makes frames for calls that were jumps as well, so its list has more."""
    code, out, err = t.run([t.cairn, "inspect", "--stacks", "--json", t.latest()])
    check(code == 0, f"inspect --stacks: {code} {err}")
    threads = sorted(json.loads(out)["processes"][0]["threads"], key=lambda each: each["tid"])
    ours = [[plain(frame["function"] or "??") for frame in each["frames"] if not frame["python"]] for each in threads]
    seen = 0
    for stack in living:
        thread = re.search(r"LWP (\d+)", stack)
        if thread is None:
            continue
        gdbs = [plain(name) for name in re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?(\S+)", stack, re.M)]
        names = ours[int(thread[1])]
        if "clone3" in names:  # behind it libdw finds the thread's first frame, or main's caller's
            names = names[:names.index("clone3") + 1]
        if "main" in names and gdbs[-1] == "main":
            names = names[:names.index("main") + 1]
        rest = iter(gdbs)
        check(all(name in rest for name in names) and len(names) > len(gdbs) - 5, f"the stack of {thread[1]} is {names}, and gdb's {gdbs}")
        seen += len(names)
    check(seen > 10, f"stacks of {seen} functions in all")


def compare(t, program, argv, asked):
    group = t.launch(argv)
    group.expect("READY")
    for number in range(t.rounds):
        pid = int(t.members()[0]["real"])
        living = seen_by_gdb(t, "-p", str(pid), asked=asked)
        check("\n".join(living).count("\n#") > 10, f"gdb sees little of the living one: {living}")
        t.checkpoint()
        compare_stacks(t, living)
        core = core_of(t, f"core.{os.path.basename(program)}.{number}", t.latest())
        dead = seen_by_gdb(t, program, core, asked=asked)
        differ = "\n".join(difflib.unified_diff("\n".join(living).splitlines(), "\n".join(dead).splitlines(), "living", "core", lineterm="", n=0))
        check(not differ, f"gdb sees another thing in the core:\n{differ}")
        check(os.stat(core).st_blocks * 512 < 64 << 20, f"the core has {os.stat(core).st_blocks * 512} bytes")
        group, _ = t.cycle(group, number)
    t.pull_the_plug()


def test(t):
    source, program = os.path.join(t.work, "program.cpp"), os.path.join(t.work, "program")
    with open(source, "w", encoding="utf-8") as file:
        file.write(C_SOURCE)
    code, _, err = t.run(["c++", "-g", "-O1", "-pthread", "-o", program, source])
    check(code == 0, err)
    compare(t, program, [program], ASKED)

    core = os.path.join(t.work, "core.program.0")
    before = os.stat(core)
    code, _, err = t.run([t.cairn, "inspect", "--core", core, t.latest()])
    check(code == 3 and "is there already" in err and os.stat(core).st_mtime == before.st_mtime, f"a core that is there: {code} {err}")

    script = os.path.join(t.work, "script.py")
    with open(script, "w", encoding="utf-8") as file:
        file.write(PY_SOURCE)
    python = os.path.realpath(shutil.which("python3", path="/usr/bin"))
    t.rounds = 1
    compare(t, python, [python, script], ["thread apply all bt"])

    group = t.launch(["/bin/sh", "-c", "sleep 100 & sleep 100 & echo READY; wait"])
    group.expect("READY")
    t.checkpoint()
    several = core_of(t, "several", t.latest())
    found = sorted(name for name in os.listdir(t.work) if name.startswith("several."))
    check(len(found) == 3 and not os.path.exists(several), f"cores of three processes: {found}")
    image = os.path.join(t.latest(), f"p{t.members()[0]['pid']}.image")
    core_of(t, "one-of-three", image)
    check(os.path.exists(os.path.join(t.work, "one-of-three")), "no core of one image")
    for name in os.listdir(t.work):
        if name.startswith(("core.", "several.", "one-of")):
            os.unlink(os.path.join(t.work, name))

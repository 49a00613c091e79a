"""make -j4 with gcc -flto=jobserver: the linker's workers take their tokens from make's pipe."""
# ci: exact
import os
from cairn_test import check, same_as_undisturbed


def project(folder, files):
    os.mkdir(os.path.join(folder, "tmp"))
    for number in range(files):
        with open(os.path.join(folder, f"part{number}.c"), "w") as file:
            for function in range(30):
                file.write(f"static int f{function}(int x) {{ int s = {number}; for (int i = 0; i < x; i++) "
                           f"s = s * {function + 3} + (s >> {function % 7 + 1}) + i; return s; }}\n")
            calls = " + ".join(f"f{function}(x + {function})" for function in range(30))
            other = f"part{number - 1}(x + 1)" if number % 4 else "0"
            file.write(f"int part{max(number, 1) - 1}(int); int part{number}(int x) {{ return {calls} + (x < 9 ? {other} : 0); }}\n")
    with open(os.path.join(folder, "main.c"), "w") as file:
        file.write("#include <stdio.h>\n")
        file.writelines(f"int part{number}(int);\n" for number in range(files))
        calls = " ".join(f"s += (unsigned)part{number}({number});" for number in range(files))
        file.write(f"int main(void) {{ unsigned s = 0; {calls} printf(\"%u\\n\", s); return 0; }}\n")
    with open(os.path.join(folder, "Makefile"), "w") as file:
        file.write("CFLAGS = -O2 -flto -frandom-seed=$@\n"
                   "objects = $(patsubst %.c,%.o,$(sort $(wildcard *.c)))\n"
                   "all: answer\n"
                   "answer: one two\n\t./one > answer; ./two >> answer; rm -r tmp\n"
                   "one: $(objects)\n\t+gcc -O2 -flto=jobserver -flto-partition=max -frandom-seed=one -o $@ $(objects)\n"
                   "two: $(objects)\n\t+gcc -O1 -flto=jobserver -flto-partition=balanced -frandom-seed=two -o $@ $(objects)\n"
                   "%.o: %.c\n\tgcc $(CFLAGS) -c -o $@ $<\n")


def test(t):
    same_as_undisturbed(t, lambda _: ["make", "-j4"], prepare=project, scale=40 if t.soak else 10, lines_only=True,
                        at_once=True, timeout=300, env={"TMPDIR": os.path.join(t.work, "tmp")})
    with open(os.path.join(t.work, "answer")) as file:
        lines = file.read().split()
    check(len(lines) == 2 and lines[0] == lines[1], f"what was built says {lines}")

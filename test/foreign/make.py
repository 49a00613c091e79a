"""make -j2 in the middle of building a C project."""
# ci: user (whose ids are virtual; a user namespace adds ids, and other tests have those)
import os
from cairn_test import check, same_as_undisturbed


def project(folder, files):
    for number in range(files):
        with open(os.path.join(folder, f"part{number}.c"), "w") as file:
            file.write("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <math.h>\n")
            for function in range(60):
                file.write(f"static int f{function}(int x) {{ int s = {number}; for (int i = 0; i < x; i++) "
                           f"s = s * {function + 3} + (s >> {function % 7 + 1}) + i; return s; }}\n")
            calls = " + ".join(f"f{function}(x + {function})" for function in range(60))
            file.write(f"int part{number}(int x) {{ return {calls}; }}\n")
    with open(os.path.join(folder, "main.c"), "w") as file:
        file.write("#include <stdio.h>\n")
        file.writelines(f"int part{number}(int);\n" for number in range(files))
        calls = " ".join(f"s += (unsigned)part{number}({number});" for number in range(files))
        file.write(f"int main(void) {{ unsigned s = 0; {calls} printf(\"%u\\n\", s); return 0; }}\n")
    with open(os.path.join(folder, "Makefile"), "w") as file:
        file.write("CFLAGS = -O2 -pipe\n"
                   "objects = $(patsubst %.c,%.o,$(sort $(wildcard *.c)))\n"
                   "program: $(objects)\n\tgcc -o $@ $(objects)\n\t./program > answer\n"
                   "%.o: %.c\n\tgcc $(CFLAGS) -c -o $@ $<\n")


def test(t):
    same_as_undisturbed(t, lambda _: ["make", "-j2"], prepare=project, scale=60 if t.soak else 10,
                        lines_only=True, at_once=True, timeout=300)
    check(os.path.getsize(os.path.join(t.work, "answer")) > 1, "no answer of the program that was built")

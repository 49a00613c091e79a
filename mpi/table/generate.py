#!/usr/bin/python3
"""Makes the wrappers of one MPI from functions.txt and the prototypes in its mpi.h.

generate.py TABLE OUT COMPILER...: writes OUT/functions.inc (names), OUT/real.inc (pointers to the MPI's own), OUT/wrappers.inc.
A function of mpi.h that no line of the table means, or a line that doesn't fit its prototype, is an error.
"""
import fnmatch
import re
import subprocess
import sys


def prototypes(compiler):
    """name -> [(type, name, suffix)] of each int MPI_X(...) that the preprocessed header declares."""
    text = subprocess.run(compiler + ["-E", "-P", "-x", "c", "-"], input="#include <mpi.h>\n", text=True,
                          capture_output=True, check=True).stdout
    found = {}
    for name, parameters in re.findall(r"\bint\s+MPI_([A-Z]\w*)\s*\(([^;{}]*?)\)\s*(?:__attribute__\s*\(\(.*?\)\)\s*)*;",
                                       text, re.S):
        parameters = " ".join(parameters.split())
        result = []
        if "..." in parameters:
            found[name] = None
            continue
        for parameter in [] if parameters in ("void", "") else split(parameters):
            match = re.fullmatch(r"(.*?)\b(\w+)((?:\s*\[\w*\])*)", parameter.strip())
            # `session` is the interposer's own.
            argument = "the_session" if match[2] == "session" else match[2]
            result.append((match[1].strip(), argument, match[3].replace(" ", "")))
        found[name] = result
    return found


def split(parameters):
    parts, depth, part = [], 0, ""
    for c in parameters:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += c
    return parts + [part]


class Row:
    def __init__(self, line):
        words = line.split()
        self.name, self.what = words[0], words[1]
        rest = words[2:]
        self.detail = rest.pop(0) if self.what in ("coll", "icoll", "noted", "refused", "makes", "frees") else ""
        self.roles = [] if rest in (["-"], []) else rest
        self.given = bool(rest)

    def argument(self, parameters, role):
        for (_, name, _), given in zip(parameters, self.roles):
            if given.rstrip("+") == role:
                return name
        return None


def read_table(path):
    with open(path, encoding="utf-8") as file:
        return [Row(line) for line in file if line.strip() and not line.startswith("#")]


def row_of(table, name):
    for row in table:
        if row.name == name:
            return row
    for row in table:
        if fnmatch.fnmatchcase(name, row.name):
            return row
    raise SystemExit(f"functions.txt: no line for MPI_{name}")


def output(row, parameters):
    """Where a collective puts what this process gets, by the roles behind that of the buffer."""
    fields = []
    at = next((i for i, role in enumerate(row.roles) if role.split("[")[0] in ("out", "inout")), None)
    if at is None:
        return "Output{}"
    names = {"count": "count", "counts": "counts", "displs": "displs", "type": "type", "types": "types"}
    found = {"out": parameters[at][1]}
    for (kind, parameter, _), role in list(zip(parameters, row.roles))[at + 1:]:
        if role not in names or names[role] in found:
            break
        found["far" if role == "displs" and "MPI_Aint" in kind else names[role]] = parameter
    found["each"] = "true" if row.roles[at].endswith("[n]") else "false"
    found["neighbours"] = "true" if "eighbor" in row.name else "false"
    for field in ("out", "each", "neighbours", "count", "counts", "displs", "far", "type", "types"):
        default = {"count": "0", "type": "MPI_DATATYPE_NULL"}.get(field, "nullptr")
        fields.append(f".{field} = {found.get(field, default)}")
    return f"Output{{{', '.join(fields)}}}"


def answer(row, name, parameters, real):
    """A question that is answered from the record in a process that is replayed alone."""
    values = []
    for (_, parameter, _), role in zip(parameters, row.roles):
        if role == "newgroup+":
            return f"return answer_group(Fn::{name}, [&] {{ return {real}; }}, {parameter});"
        if match := re.fullmatch(r"list\[(\d+)\]\+", role):
            values.append(f"{{{parameter}, {parameters[int(match[1]) - 1][1]}}}")
        elif role == "value+":
            values.append(f"{{{parameter}, 1}}")
    if not values:
        raise SystemExit(f"functions.txt: MPI_{name} answers nothing")
    return f"return answer(Fn::{name}, [&] {{ return {real}; }}, {{{', '.join(values)}}});"


def body(row, name, parameters):
    arguments = ", ".join(p[1] for p in parameters)
    real = f"real.{name}"
    call = f"Call{{Fn::{name}, __builtin_return_address(0), __builtin_frame_address(0)}}"
    comma = ", " if arguments else ""
    if row.what == "own":
        return f"return on_{name}({call}{comma}{arguments});"
    if row.what in ("send", "isend", "init_send"):
        return f"return {row.what}({call}, {real}, {arguments});"
    if row.what in ("noted", "refused"):
        return f'return {row.what}({call}, "{row.detail}", [&] {{ return {real}({arguments}); }});'
    if row.what == "answer":
        answered = answer(row, name, parameters, f"{real}({arguments})")
        if made := row.argument(parameters, "newgroup"):
            return f"if (!answering) return makes({call}, Leaked::group, {made}, [&] {{ return {real}({arguments}); }});\n    {answered}"
        return answered
    if row.what == "makes":
        return f"return makes({call}, Leaked::{row.detail}, {parameters[-1][1]}, [&] {{ return {real}({arguments}); }});"
    if row.what == "frees":
        return f"return frees(Leaked::{row.detail}, {parameters[0][1]}, [&] {{ return {real}({arguments}); }});"
    comm = row.argument(parameters, "comm")
    root = row.argument(parameters, "root") or "MPI_PROC_NULL"
    if row.what in ("coll", "icoll"):
        request = row.argument(parameters, "request")
        extra = f", {request}" if row.what == "icoll" else ""
        return f"return {row.what}({call}, Shape::{row.detail}, {comm}, {root}{extra}, {output(row, parameters)}, [&] {{ return {real}({arguments}); }});"
    if row.what in ("comm", "group_comm"):
        made = row.argument(parameters, "newcomm")
        info = row.argument(parameters, "info")
        heed = f"heed({call}, {info});\n    " if info else ""
        return f"{heed}return make_{row.what}({call}, {comm}, {made}, [&] {{ return {real}({arguments}); }});"
    raise SystemExit(f"functions.txt: MPI_{row.name}: what is '{row.what}'?")


def main():
    table_path, out, compiler = sys.argv[1], sys.argv[2], sys.argv[3:]
    table = read_table(table_path)
    functions = prototypes(compiler)
    missing = [r.name for r in table if "*" not in r.name and r.name not in functions and r.what != "noted"
               and r.what not in ("refused", "local", "makes", "frees")]
    if missing:
        raise SystemExit(f"mpi.h has no {', '.join(missing)}")
    names, later_names, reals, wrappers = [], [], [], []
    for name, parameters in sorted(functions.items()):
        row = row_of(table, name)
        if row.what == "local":
            continue
        if parameters is None:
            raise SystemExit(f"functions.txt: MPI_{name} has variable arguments and can't be wrapped")
        if row.roles and len(row.roles) != len(parameters):
            raise SystemExit(f"functions.txt: MPI_{name} has {len(parameters)} arguments, its line {len(row.roles)}")
        # A record has the numbers of these: those of no event come last, and move no other.
        if row.what != "frees":
            (later_names if row.what == "makes" else names).append(f"FUNCTION({name})\n")
        reals.append(f"REAL({name})\n")
        declared = ", ".join(f"{kind} {p}{suffix}" for kind, p, suffix in parameters) or "void"
        arguments = ", ".join(p[1] for p in parameters)
        always = name in ("Init", "Init_thread")
        tracked = row.argument(parameters, "newgroup") is not None
        condition = "!answering" if row.what == "answer" and not tracked else "!live"
        # What doesn't wait is a new wait, under `cairn mpi pass` as well.
        first = "" if always else f"    if ({condition} || inside != 0) [[unlikely]] {{\n        idle = 0;\n        return real.{name}({arguments});\n    }}\n"
        wrappers.append(f"WRAPPER int MPI_{name}({declared}) {{\n{first}    {body(row, name, parameters)}\n}}\n"
                        f'WRAPPER int PMPI_{name}({declared}) __attribute__((alias("MPI_{name}")));\n')
    for file, lines in (("functions.inc", names + later_names), ("real.inc", reals), ("wrappers.inc", wrappers)):
        with open(f"{out}/{file}", "w", encoding="utf-8") as text:
            text.write("// Made by mpi/table/generate.py.\n" + "".join(lines))


main()

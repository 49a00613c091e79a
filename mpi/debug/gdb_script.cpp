#include "mpi/debug/gdb_script.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace cairn::mpi::debug {
namespace {

// The layer, the MPI and the system's libraries are between the program and where it stands.
constexpr const char* prelude = R"(set pagination off
set confirm off
set print thread-events off
set width 0
python
import re
def program_frame():
    frame = gdb.newest_frame()
    while frame is not None:
        library = gdb.solib_name(frame.pc())
        if library is None and frame.name() is not None:
            return frame
        if library and not re.search(r'^/(usr/)?lib|/libcairn|/libmpi|/libopen-|/libuc[stpm]', library):
            return frame
        frame = frame.older()
    return gdb.newest_frame()
def place(frame):
    sal = frame.find_sal()
    name = frame.name() or '?'
    return '%s:%d (%s)' % (sal.symtab.filename.split('/')[-1], sal.line, name) if sal.symtab else name
def say(*words):
    gdb.write('@' + '\t'.join(str(each).replace('\n', ' ') for each in words) + '\n')
    gdb.flush()
end
)";

}  // namespace

std::string with_socket(std::string script, int socket) {
    const std::string what = "%SOCKET%";
    for (std::size_t at = 0; (at = script.find(what)) != std::string::npos;)
        script.replace(at, what.size(), std::to_string(socket));
    return script;
}

Result<Fd> gdb_script(const std::string& script) {
    Fd file(::memfd_create("cairn-gdb", 0));
    const std::string text = std::string(prelude) + script;
    if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
        ::lseek(file.get(), 0, SEEK_SET) != 0)
        return fail_errno("a script for gdb");
    return file;
}

void become_gdb(pid_t pid, int script, GdbMay may) {
    ::unsetenv("DEBUGINFOD_URLS");
    const std::string from = fmt::format("/dev/fd/{}", script), which = std::to_string(pid);
    std::vector<const char*> words = {"gdb", "-q", "-nx", "-batch"};
    // Said before it attaches: later gdb refuses most of it.
    if (may == GdbMay::look)
        for (const char* what : {"set may-call-functions off", "set may-write-memory off",
                                 "set may-write-registers off", "set may-insert-breakpoints off"})
            words.insert(words.end(), {"-iex", what});
    words.insert(words.end(), {"-p", which.c_str(), "-x", from.c_str(), nullptr});
    ::execvp("gdb", const_cast<char* const*>(words.data()));
    fmt::print("gdb: {}\n", std::strerror(errno));
    std::fflush(stdout);
    ::_exit(127);
}

}  // namespace cairn::mpi::debug

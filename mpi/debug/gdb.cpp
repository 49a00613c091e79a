#include "mpi/debug/gdb.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "common/fd.h"
#include "mpi/debug/gdb_script.h"

namespace cairn::mpi::debug {
namespace {

class Gdb {
  public:
    static Result<Gdb> start(pid_t pid, const std::string& script) {
        Gdb gdb;
        const Fd file = TRY(gdb_script(script));
        int both[2];
        if (::pipe2(both, O_CLOEXEC) != 0) return fail_errno("a pipe");
        gdb.output_.reset(both[0]);
        const Fd theirs(both[1]);
        gdb.pid_ = ::fork();
        if (gdb.pid_ < 0) return fail_errno("starting gdb");
        if (gdb.pid_ == 0) {
            ::setpgid(0, 0);
            ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
            const Fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
            ::dup2(nothing.get(), STDIN_FILENO);
            ::dup2(theirs.get(), STDOUT_FILENO);
            ::dup2(theirs.get(), STDERR_FILENO);
            become_gdb(pid, file.get());
        }
        return gdb;
    }
    Gdb(Gdb&& other) noexcept
        : pid_(std::exchange(other.pid_, -1)),
          output_(std::move(other.output_)),
          text_(std::move(other.text_)) {}
    Gdb& operator=(Gdb&&) = delete;
    ~Gdb() {
        if (pid_ <= 0) return;
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }

    [[nodiscard]] int output() const { return output_.get(); }
    // False at its end.
    bool read_some() {
        char bytes[4096];
        const ssize_t size = ::read(output_.get(), bytes, sizeof bytes);
        if (size < 0 && errno == EINTR) return true;
        if (size <= 0) return false;
        text_.append(bytes, static_cast<std::size_t>(size));
        return true;
    }
    void read_all() {
        while (read_some()) {
        }
    }
    // Lines that the script has said, by their first word: the words behind it.
    [[nodiscard]] std::vector<std::vector<std::string>> said(const std::string& what) const {
        std::vector<std::vector<std::string>> found;
        for (std::size_t begin = 0; begin < text_.size();) {
            const std::size_t end = std::min(text_.find('\n', begin), text_.size());
            const std::string line = text_.substr(begin, end - begin);
            begin = end + 1;
            if (!line.starts_with("@" + what + "\t")) continue;
            auto& words = found.emplace_back();
            for (std::size_t at = what.size() + 2; at <= line.size();) {
                const std::size_t stop = std::min(line.find('\t', at), line.size());
                words.push_back(line.substr(at, stop - at));
                at = stop + 1;
            }
        }
        return found;
    }
    [[nodiscard]] const std::string& text() const { return text_; }
    // Why it hasn't said what it was to say.
    [[nodiscard]] std::unexpected<Error> failure(const std::string& expression) const {
        for (const auto& words : said("error"))
            return fail_code(ExitCode::refused, "{}: {}", expression, words[0]);
        const std::size_t last = text_.find_last_not_of('\n');
        const std::size_t begin = last == std::string::npos ? last : text_.rfind('\n', last);
        return fail("gdb says: {}", last == std::string::npos
                                        ? "nothing"
                                        : text_.substr(begin == std::string::npos ? 0 : begin + 1,
                                                       last - (begin == std::string::npos ? 0 : begin)));
    }

  private:
    Gdb() = default;
    pid_t pid_ = -1;
    Fd output_;
    std::string text_;
};

std::string quoted(const std::string& text) {
    std::string result = "'";
    for (const char each : text) {
        if (each == '\'' || each == '\\') result += '\\';
        result += each;
    }
    return result + "'";
}

}  // namespace

Result<std::string> print_in(pid_t process, const std::string& expression) {
    auto gdb = TRY(Gdb::start(process, fmt::format(R"(python
try:
    program_frame().select()
    say('value', gdb.execute('print ' + {}, to_string=True).strip())
except Exception as why:
    say('error', why)
end
)",
                                                   quoted(expression))));
    gdb.read_all();
    for (const auto& words : gdb.said("value")) {
        // Not the number that gdb gives it.
        const std::size_t equals = words[0].starts_with("$") ? words[0].find(" = ") : std::string::npos;
        return equals == std::string::npos ? words[0] : words[0].substr(equals + 3);
    }
    return gdb.failure(expression);
}

Result<Assigned> assign_in(const RankProcess& copy, const std::string& assignment) {
    // The first sign that assigns: not one of a comparison.
    std::size_t equals = 0;
    do {
        equals = assignment.find('=', equals + (equals > 0 ? 1 : 0));
        if (equals == std::string::npos || equals == 0)
            return fail_code(ExitCode::usage, "'{}': what is to have which value? For example: sum = 4",
                             assignment);
    } while (std::string_view("=!<>").contains(assignment[equals - 1]) ||
             assignment.substr(equals + 1, 1) == "=");
    const std::string what = assignment.substr(0, equals), value = assignment.substr(equals + 1);
    auto gdb = TRY(Gdb::start(copy.pid(), fmt::format(R"(python
try:
    program_frame().select()
    before = str(gdb.parse_and_eval({0}))
    gdb.execute('set variable ' + {0} + ' = ' + {1}, to_string=True)
    say('assigned', before, str(gdb.parse_and_eval({0})))
except Exception as why:
    say('error', why)
end
)",
                                                      quoted(what), quoted(value))));
    gdb.read_all();
    for (const auto& words : gdb.said("assigned"))
        if (words.size() == 2) return Assigned{what, words[0], words[1]};
    return gdb.failure(assignment);
}

Result<Watched> watched_in(const RankProcess& copy, const std::string& expression) {
    // Locals of one call are at another place in the next, so what is watched is the memory.
    auto gdb = TRY(Gdb::start(copy.pid(), fmt::format(R"(python
try:
    program_frame().select()
    value = gdb.parse_and_eval({})
    if value.address is None:
        raise gdb.error('it is not in memory at this place')
    kind, size = value.type.strip_typedefs(), value.type.sizeof
    names = {{1: 'char', 2: 'short', 4: 'int', 8: 'long'}}
    if kind.code == gdb.TYPE_CODE_FLT and size in (4, 8):
        name = {{4: 'float', 8: 'double'}}[size]
    elif size in names:
        name = names[size]
    elif size <= 32:
        name = 'char[%d]' % size
    else:
        raise gdb.error('it has %d bytes, and no more than 32 can be watched: name a part of it' % size)
    address = int(value.address)
    say('watch', '*(%s *) 0x%xUL' % (name, address) if '[' not in name else '*(char (*)[%d]) 0x%xUL' % (size, address), value)
except Exception as why:
    say('error', why)
end
)",
                                                      quoted(expression))));
    gdb.read_all();
    for (const auto& words : gdb.said("watch"))
        if (words.size() == 2) return Watched{words[0], words[1]};
    return gdb.failure(expression);
}

Result<std::optional<Change>> last_change(RankProcess& copy, const Watched& watched, const Command& run) {
    auto gdb = TRY(Gdb::start(copy.pid(), fmt::format(R"(set language c
python
try:
    what = {}
    read = lambda: str(gdb.parse_and_eval(what))
    before = read()
    gdb.execute('watch -l ' + what, to_string=True)
    say('ready', '')
    while True:
        gdb.execute('continue', to_string=True)
        if gdb.selected_inferior().pid == 0:
            break
        after = read()
        if after != before:
            position = gdb.parse_and_eval('*(unsigned long *) &cairn_mpi_position')
            say('change', position, place(program_frame()), before, after)
        before = after
except Exception as why:
    say('error', why)
end
)",
                                                      quoted(watched.expression))));
    // It stands until it is told to run, which gdb is to see.
    bool there = true;
    while (there && gdb.said("ready").empty() && gdb.said("error").empty()) there = gdb.read_some();
    if (gdb.said("ready").empty()) return gdb.failure(watched.expression);
    CHECK_OK(copy.ask(run));
    while (there) {
        pollfd waiting[2] = {{gdb.output(), POLLIN, 0}, {copy.there() ? copy.socket() : -1, POLLIN, 0}};
        if (::poll(waiting, 2, -1) < 0 && errno != EINTR) return fail_errno("waiting for gdb");
        if (waiting[0].revents != 0) there = gdb.read_some();
        if (waiting[1].revents == 0) continue;
        // It stands, or has ended: gdb sees its end.
        static_cast<void>(copy.hear());
        ::kill(copy.pid(), SIGKILL);
        gdb.read_all();
        there = false;
    }
    const auto changes = gdb.said("change");
    if (changes.empty() || changes.back().size() != 4) return std::nullopt;
    const auto& last = changes.back();
    return Change{std::strtoull(last[0].c_str(), nullptr, 10), last[1], last[2], last[3]};
}

Result<> open_gdb(pid_t process) {
    const pid_t pid = ::fork();
    if (pid < 0) return fail_errno("starting gdb");
    if (pid == 0) {
        const std::string which = std::to_string(process);
        ::signal(SIGINT, SIG_DFL);
        ::execlp("gdb", "gdb", "-q", "-p", which.c_str(), nullptr);
        fmt::print(stderr, "gdb: {}\n", std::strerror(errno));
        ::_exit(127);
    }
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) return fail("gdb can't be started");
    return {};
}

}  // namespace cairn::mpi::debug

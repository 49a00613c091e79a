#include "cli/launch.h"

#include <fcntl.h>
#include <getopt.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "cli/cpu_variables.h"
#include "cli/exit_code.h"
#include "cli/first_process.h"
#include "cli/hello.h"
#include "cli/place.h"
#include "cli/plugin.h"
#include "cli/say.h"
#include "common/compression.h"
#include "common/elf_check.h"
#include "common/external_policy.h"
#include "common/files_policy.h"
#include "common/io_uring_filter.h"
#include "common/landlock_policy.h"
#include "common/layout.h"
#include "common/outside_mark.h"
#include "common/preload.h"
#include "common/reach_coordinator.h"
#include "common/session.h"

namespace cairn::cli {
namespace {

struct Options {
    std::string session, coordinator, key, io_uring, cpu;
    Wishes wishes;
    std::vector<std::string> plugins;
    std::vector<char*> program;  // argv of the program, with the null at the end
};

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string() : std::string(value);
}

int wrong_usage(const std::string& text) {
    complain(
        text +
        "\nusage: cairn launch [OPTIONS] [--] PROGRAM [ARGUMENT...]; `cairn help launch` lists the options");
    return exit_usage;
}

// A number that JSON knows as well: digits, perhaps with a fraction.
bool is_seconds(const std::string& text) {
    const std::size_t whole = text.find_first_not_of("0123456789");
    if (text.empty() || text[0] == '.' || (text.size() > 1 && text[0] == '0' && text[1] != '.')) return false;
    if (whole == std::string::npos) return text.size() <= 9;
    return whole <= 9 && text[whole] == '.' && whole + 1 < text.size() &&
           text.find_first_not_of("0123456789", whole + 1) == std::string::npos;
}

// A number that JSON knows as well.
bool is_count(const std::string& text) {
    return !text.empty() && text.size() <= 6 && text.find_first_not_of("0123456789") == std::string::npos &&
           (text.size() == 1 || text[0] != '0');
}

bool is_yes(const std::string& value) {
    return !value.empty() && value != "0" && value != "no";
}

// Links in what the caller names are his own; behind it none is followed. A folder that isn't there yet has
// the name that is given.
std::string whole_path(const char* folder) {
    char real[PATH_MAX];
    if (::realpath(folder, real) != nullptr) return real;
    if (folder[0] == '/' || ::getcwd(real, sizeof real) == nullptr) return folder;
    return std::string(real) + "/" + folder;
}

// 0, or an exit code.
int check_values(const Options& options) {
    const Wishes& wishes = options.wishes;
    if (!wishes.interval.empty() && !is_seconds(wishes.interval))
        return wrong_usage("launch: interval '" + wishes.interval + "' is no number of seconds");
    if (!wishes.external.empty() && !external_policy(wishes.external))
        return wrong_usage("launch: --external: reset, refuse or keep-listening, not '" + wishes.external +
                           "'");
    if (!wishes.landlock.empty() && !landlock_policy(wishes.landlock))
        return wrong_usage(std::string("launch: --landlock: ") + landlock_policy_words + ", not '" +
                           wishes.landlock + "'");
    if (!wishes.files.empty() && !is_files_policy(wishes.files))
        return wrong_usage("launch: --files: save (with each checkpoint) or leave, not '" + wishes.files +
                           "'");
    if (!wishes.compress.empty() && !compression_named(wishes.compress))
        return wrong_usage(std::string("launch: --compress: ") + compression_words + ", not '" +
                           wishes.compress + "'");
    if (!options.io_uring.empty() && options.io_uring != io_uring_enosys && options.io_uring != "refuse")
        return wrong_usage(
            "launch: --io-uring: refuse (at the checkpoint) or enosys (the program is told that there is "
            "none), not '" +
            options.io_uring + "'");
    if (!options.cpu.empty() && !cpu_level(options.cpu))
        return wrong_usage(
            "launch: --cpu: x86-64-v2, x86-64-v3, x86-64-v4 or host (all that this machine's has), not '" +
            options.cpu + "'");
    if (!wishes.keep.empty() && !is_count(wishes.keep))
        return wrong_usage("launch: --keep: 0 (all) to 999999 generations, not '" + wishes.keep + "'");
    return exit_ok;
}

constexpr option known_options[] = {{"session", required_argument, nullptr, 's'},
                                    {"ckptdir", required_argument, nullptr, 'd'},
                                    {"interval", required_argument, nullptr, 'i'},
                                    {"coordinator", required_argument, nullptr, 'c'},
                                    {"keep", required_argument, nullptr, 'k'},
                                    {"key", required_argument, nullptr, 'K'},
                                    {"self-contained", no_argument, nullptr, 'C'},
                                    {"external", required_argument, nullptr, 'E'},
                                    {"landlock", required_argument, nullptr, 'A'},
                                    {"files", required_argument, nullptr, 'F'},
                                    {"with", required_argument, nullptr, 'W'},
                                    {"plugin", required_argument, nullptr, 'L'},
                                    {"io-uring", required_argument, nullptr, 'U'},
                                    {"cpu", required_argument, nullptr, 'P'},
                                    {"compress", required_argument, nullptr, 'Z'},
                                    {"track-mem", no_argument, nullptr, 'T'},
                                    {nullptr, 0, nullptr, 0}};

Wishes wishes_of_environment() {
    return {environment("CAIRN_CKPTDIR"),
            environment("CAIRN_INTERVAL"),
            environment("CAIRN_KEEP"),
            is_yes(environment("CAIRN_SELF_CONTAINED")),
            {},
            environment("CAIRN_EXTERNAL"),
            environment("CAIRN_FILES"),
            environment("CAIRN_WITH"),
            environment("CAIRN_COMPRESS"),
            is_yes(environment("CAIRN_TRACK_MEM")),
            environment("CAIRN_LANDLOCK")};
}

// Where the value of an option goes that is taken as it stands; null: it is no such option.
std::string* place_of(int option, Options& options) {
    Wishes& wishes = options.wishes;
    switch (option) {
        case 's':
            return &options.session;
        case 'd':
            return &wishes.checkpoint_folder;
        case 'i':
            return &wishes.interval;
        case 'c':
            return &options.coordinator;
        case 'K':
            return &options.key;
        case 'k':
            return &wishes.keep;
        case 'E':
            return &wishes.external;
        case 'A':
            return &wishes.landlock;
        case 'F':
            return &wishes.files;
        case 'Z':
            return &wishes.compress;
        case 'U':
            return &options.io_uring;
        case 'P':
            return &options.cpu;
        default:
            return nullptr;
    }
}

// 0, or an exit code.
int read_options(int argc, char** argv, Options& options) {
    Wishes& wishes = options.wishes;
    options.session = session_name({});
    options.coordinator = environment("CAIRN_COORDINATOR");
    options.io_uring = environment(env_io_uring);
    options.cpu = environment(env_cpu);
    wishes = wishes_of_environment();
    opterr = 0;
    // '+': stop at the program's name; what follows is the program's.
    for (int given = 0; (given = ::getopt_long(argc, argv, "+:s:d:i:c:k:", known_options, nullptr)) != -1;) {
        if (std::string* const place = place_of(given, options)) {
            *place = optarg;
            continue;
        }
        switch (given) {
            case 'C':
                wishes.self_contained = true;
                break;
            case 'T':
                wishes.track_mem = true;
                break;
            case 'L':
                options.plugins.emplace_back(whole_path(optarg));
                break;
            case 'W':
                wishes.with = joined_folders(wishes.with, whole_path(optarg));
                if (std::strchr(optarg, ':') != nullptr)
                    return wrong_usage(std::string("launch: --with ") + optarg +
                                       ": a folder with a colon in its path can't be named");
                break;
            case ':':
                return wrong_usage(std::string("launch: ") + argv[optind - 1] + " needs a value");
            default:
                return wrong_usage(std::string("launch: unknown option ") + argv[optind - 1]);
        }
    }
    if (optind >= argc) return wrong_usage("launch: which program?");
    options.program.assign(argv + optind, argv + argc);
    options.program.push_back(nullptr);
    if (!wishes.with.empty() && wishes.files.empty()) wishes.files = files_save;
    if (const int code = check_values(options); code != exit_ok) return code;
    if (!wishes.checkpoint_folder.empty() && wishes.checkpoint_folder[0] != '/') {
        char here[PATH_MAX];
        if (::getcwd(here, sizeof here) == nullptr) {
            complain(std::string("launch: the current folder: ") + std::strerror(errno));
            return exit_failed;
        }
        wishes.checkpoint_folder = std::string(here) + "/" + wishes.checkpoint_folder;
    }
    return exit_ok;
}

struct Found {
    std::string path;
    ProgramCheck check;
};

// As execvp(3) looks for a program: the first that can be executed; else what was wrong with the first that
// is there.
Found find_program(const char* name) {
    if (std::strchr(name, '/') != nullptr) return {name, check_program(AT_FDCWD, name)};
    std::string path = std::getenv("PATH") == nullptr ? "/bin:/usr/bin" : environment("PATH");
    path += ':';
    Found denied{name, {}};
    denied.check.kind = ProgramKind::not_found;
    denied.check.error = ENOENT;
    if (name[0] == '\0') return denied;
    for (std::size_t at = 0; at < path.size();) {
        const std::size_t end = path.find(':', at);
        std::string candidate = path.substr(at, end - at);
        if (!candidate.empty()) candidate += '/';  // an empty entry is the current folder
        candidate += name;
        at = end + 1;
        Found found{candidate, check_program(AT_FDCWD, candidate.c_str())};
        // A script whose interpreter is missing was found, its interpreter wasn't.
        const bool missing = found.check.kind == ProgramKind::not_found && candidate == found.check.file;
        if (!missing && found.check.kind != ProgramKind::not_executable) return found;
        if (!missing && denied.check.kind == ProgramKind::not_found) denied = found;
    }
    return denied;
}

// 0, or why the program isn't started.
int judge(const char* name, const Found& found) {
    const ProgramCheck& check = found.check;
    // "script (by its interpreter /x/y)" where the verdict is about another file than the one asked for.
    std::string who = found.path;
    if (check.kind != ProgramKind::not_found && check.file[0] != '\0' && found.path != check.file)
        who += std::string(" (run by ") + check.file + ")";
    if (check.refused()) {
        std::string text = who + ": refused: " + check.reason;
        if (check.kind == ProgramKind::secure)
            text += ", so it can't be checkpointed; run it without cairn, or as the user that it changes to";
        complain(text);
        return exit_refused;
    }
    if (check.kind == ProgramKind::own_tool) {
        complain(who + ": refused: cairn's own command is never part of a session; run it by itself");
        return exit_refused;
    }
    if (check.kind == ProgramKind::not_found) {
        if (check.file[0] != '\0' && found.path != check.file)
            complain(found.path + ": its interpreter " + check.file + ": " + std::strerror(check.error));
        else
            complain(std::string(name) + ": " +
                     (std::strchr(name, '/') ? std::strerror(check.error) : "not found in PATH"));
        return exit_not_found;
    }
    if (check.kind == ProgramKind::not_executable) {
        complain(who + ": " + std::strerror(check.error));
        return exit_not_executable;
    }
    return exit_ok;
}

bool is_cairn_mpi(const Found& found, const Options& options) {
    return found.check.kind == ProgramKind::own_tool && options.program.size() > 2 &&
           std::strcmp(options.program[1], "mpi") == 0;
}

// `cairn launch ... cairn mpi ... PROGRAM`: cairn's own command is never part of a session, but it becomes
// the program. So it goes first, and launches what it would have become (mpi/tool/launch.cpp).
int go_behind_mpi(const Found& found, char** argv, std::vector<char*>& program) {
    std::string words;
    for (char** word = argv; *word != nullptr && *word != program[0]; ++word) {
        if (std::strchr(*word, '\n') != nullptr) {
            complain(
                "launch: an option with an end of line in it can't be given to what `cairn mpi` launches");
            return exit_usage;
        }
        words += std::string(*word) + '\n';
    }
    ::setenv("CAIRN_MPI_LAUNCH", (found.path + "\n" + words).c_str(), 1);
    ::execv(found.path.c_str(), program.data());
    complain(found.path + ": " + std::strerror(errno));
    return exit_not_executable;
}

// Returns an exit code, as shells do.
int become(const Found& found, std::vector<char*>& argv) {
    const char* path = found.path.c_str();
    ::execv(path, argv.data());
    if (errno == ENOEXEC) {
        // Neither ELF nor #!: a shell takes it for a script (POSIX; execvp(3) does so too).
        char shell[] = "/bin/sh";
        std::string script = found.path;
        std::vector<char*> with_shell{shell, script.data()};
        with_shell.insert(with_shell.end(), argv.begin() + 1, argv.end());
        ::execv(shell, with_shell.data());
    }
    const int error = errno;
    complain(found.path + ": " + std::strerror(error));
    return error == ENOENT || error == ENOTDIR ? exit_not_found : exit_not_executable;
}

// A coordinator may take the connection and go before it answers (killed, or its last process has just left):
// then the next one is asked.
Welcome join(const Session& session, const Options& options) {
    constexpr int most_tries = 3;
    Welcome welcome;
    for (int tries = 0; tries < most_tries; ++tries) {
        const Connection connection = reach_coordinator(session);
        if (connection.fd < 0) return {exit_no_coordinator, connection.problem, {}, {}};
        welcome = say_hello(connection.fd, options.wishes);
        ::close(connection.fd);
        if (welcome.code != exit_no_coordinator) break;
    }
    if (welcome.code != exit_ok) welcome.problem = "session " + session.name + ": " + welcome.problem;
    return welcome;
}

// Two launches without --session are one computation, which not everybody expects.
void tell_who_is_there(const Session& session, const Welcome& welcome) {
    if (welcome.processes == 0) return;
    const std::string who = std::to_string(welcome.processes) +
                            (welcome.processes == 1 ? " process" : " processes") + " of session " +
                            session.name;
    if (!welcome.moved_from.empty())
        complain("note: checkpoints of " + who + " go to " + welcome.folder + " from now on, no more to " +
                 welcome.moved_from + " (--session NAME launches into a session of its own)");
    else if (::isatty(STDERR_FILENO) == 1)  // a script that launches many knows
        complain("note: it belongs to " + who +
                 " from now on: a checkpoint saves all of them (--session NAME launches into a session of "
                 "its own)");
}

// The folder, or the lowest above it that is there, must let us write: said now, and not hours later. "" or
// why not.
std::string folder_problem(std::string folder) {
    while (::access(folder.c_str(), F_OK) != 0 && errno == ENOENT && folder.size() > 1) {
        const std::size_t slash = folder.find_last_of('/');
        folder.resize(slash == 0 ? 1 : slash);
    }
    struct stat status {};
    if (::stat(folder.c_str(), &status) != 0) return folder + ": " + std::strerror(errno);
    if (!S_ISDIR(status.st_mode)) return folder + " is no folder";
    if (::access(folder.c_str(), W_OK | X_OK) != 0) return folder + ": " + std::strerror(errno);
    return "";
}

// 0, or an exit code.
int check_folder(const std::string& folder) {
    const std::string problem = folder.empty() ? "" : folder_problem(folder);
    if (problem.empty()) return exit_ok;
    complain("launch: no checkpoint can be written to " + folder + ": " + problem);
    return exit_usage;
}

}  // namespace

int launch(int argc, char** argv) {
    Options options;
    if (const int code = read_options(argc, argv, options); code != exit_ok) return code;
    if (const int code = check_folder(options.wishes.checkpoint_folder); code != exit_ok) return code;
    const Found found = find_program(options.program[0]);
    if (is_cairn_mpi(found, options)) return go_behind_mpi(found, argv, options.program);
    leave_first_process();
    // For the coordinator that may have to be started, and for what the program launches.
    if (!options.coordinator.empty()) ::setenv("CAIRN_COORDINATOR", options.coordinator.c_str(), 1);
    if (!options.key.empty()) {
        char path[PATH_MAX];
        if (::realpath(options.key.c_str(), path) == nullptr) {
            complain("launch: key " + options.key + ": " + std::strerror(errno));
            return exit_failed;
        }
        ::setenv("CAIRN_KEY_FILE", path, 1);
    }
    options.wishes.coordinator = options.coordinator;
    if (const int code = judge(options.program[0], found); code != exit_ok) return code;
    const std::string library = own_library();
    if (library.empty()) {
        complain("launch: libcairn.so is not where this cairn was installed, or /proc is not mounted");
        return exit_failed;
    }
    const auto session = make_session(options.session);
    if (!session) {
        complain("session " + options.session + ": " + session.error());
        return exit_failed;
    }
    if (const std::string problem = preload_plugins(library, options.plugins); !problem.empty()) {
        complain("launch: --plugin " + problem);
        return exit_usage;
    }
    // What `cairn outside` has started may launch programs that aren't.
    ::unsetenv(env_outside);
    const Welcome welcome = join(*session, options);
    if (welcome.code != exit_ok) {
        complain(welcome.problem);
        return welcome.code;
    }
    if (!welcome.note.empty()) complain("note: " + welcome.note);
    tell_who_is_there(*session, welcome);
    if (const std::string problem =
            set_preload(library, welcome.region, found.check.kind != ProgramKind::other_loader);
        !problem.empty()) {
        complain("launch: " + problem);
        return exit_failed;
    }
    // The coordinator, whom join() may have started, does without the filter.
    if (options.io_uring == io_uring_enosys) {
        if (const int problem = turn_io_uring_off(); problem != 0) {
            complain(std::string("launch: --io-uring=enosys: no seccomp filter can be had: ") +
                     std::strerror(problem));
            return exit_failed;
        }
        ::setenv(env_io_uring, io_uring_enosys, 1);
    } else if (!io_uring_is_off()) {  // a program of a session with the filter can't be without it
        ::unsetenv(env_io_uring);
    }
    if (!keep_within(cpu_level(options.cpu).value_or(CpuLevel::host))) {
        complain("launch: --cpu: no memory for the environment");
        return exit_failed;
    }
    // Who reads a program's environment needn't learn it.
    ::unsetenv("CAIRN_KEY");
    const Place place(welcome.region, !found.check.without_library());
    if (place.taken() != 0) {
        const std::string all = std::to_string(place.taken());
        complain("session " + session->name + ": its table of processes is full: " + all + " of " + all +
                 " places are taken. " + found.path +
                 " is not started: it couldn't be saved. End some of the session's programs (`cairn list` "
                 "shows them), or launch it in another one (--session NAME)");
        return exit_refused;
    }
    return become(found, options.program);
}

}  // namespace cairn::cli

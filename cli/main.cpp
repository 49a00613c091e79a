// `cairn`: does `launch` itself and hands every other verb to a program of its own, as git does.
#include <elf.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "cli/exit_code.h"
#include "cli/first_process.h"
#include "cli/launch.h"
#include "cli/outside.h"
#include "cli/say.h"
#include "cli/verbs.h"
#include "common/layout.h"
#include "common/preload.h"

namespace cairn::cli {
namespace {

// By this note the exec wrapper inside a group tells `cairn` from the static programs that it has to refuse
// (common/elf_check.h).
struct Note {
    Elf64_Nhdr header;
    char name[8];
};
[[gnu::section(".note.cairn"), gnu::used, gnu::aligned(4)]] constexpr Note own_note = {
    {sizeof "cairn", 0, 1}, {'c', 'a', 'i', 'r', 'n'}};

int overview() {
    std::string text =
        "cairn saves running programs and brings them back.\n\n"
        "usage: cairn VERB [OPTIONS]\n\n";
    for (const Verb& verb : verbs()) {
        text += "  ";
        text += verb.name;
        text.append(14 - verb.name.size(), ' ');
        text += verb.summary;
        text += '\n';
    }
    text +=
        "\n`cairn help VERB` tells more; `man cairn` tells all.\n"
        "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 refused by rule, 4 damaged image,\n"
        "            5 no coordinator, 6 timed out; launch also 126, 127 as shells do.\n";
    return print(text) ? exit_ok : exit_failed;
}

int unknown(std::string_view name) {
    std::string text = "there is no verb '";
    text += name;
    text += "'";
    if (const Verb* near = nearest_verb(name)) {
        text += "; did you mean 'cairn ";
        text += near->name;
        text += "'?";
    } else {
        text += "; `cairn help` lists them";
    }
    complain(text);
    return exit_usage;
}

// The doctor is to be found also where /proc isn't mounted, for it is who says what follows from that: by the
// name under which this program was executed.
std::string doctor_by_name(const Verb& verb) {
    const auto* executed = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
    if (verb.name != "doctor" || executed == nullptr) return {};
    std::string folder(executed);
    folder.resize(folder.rfind('/') == std::string::npos ? 0 : folder.rfind('/') + 1);
    for (const std::string_view below : {"", CAIRN_BIN_TO_LIBEXEC "/"}) {
        std::string path = folder + std::string(below) + std::string(verb.program);
        if (::access(path.c_str(), X_OK) == 0) return path;
    }
    return {};
}

// Becomes the verb's program. Returns only when that can't be.
int hand_over(const Verb& verb, std::vector<char*> arguments) {
    std::string program = own_program(verb.program);
    if (program.empty()) program = doctor_by_name(verb);
    if (program.empty()) {
        std::string text(verb.program);
        text += " is not installed beside this cairn";
        // A package of its own, because it wants an MPI of the machine, and left out of a build without one.
        if (verb.name == "mpi")
            text += ": it is in Debian's package cairn-mpi, or is built where an MPI is (docs/mpi.md)";
        if (::access("/proc/self/exe", F_OK) != 0)
            text += " (or /proc is not mounted: it is needed to find it)";
        complain(text);
        return exit_failed;
    }
    // Started with standard descriptors closed, it would take its first files for them and print into these.
    int unused = 0;
    while (unused >= 0 && unused <= STDERR_FILENO) unused = ::open("/dev/null", O_RDWR);
    if (unused > STDERR_FILENO) ::close(unused);
    // A tool must not become a member of the group that it is asked about.
    forget_preload();
    // As ps shows it: "cairn list", "cairn-restart".
    std::string name = "cairn";
    if (!verb.pass_name) name = name + "-" + std::string(verb.name);
    std::string verb_name(verb.name);
    std::vector<char*> argv{name.data()};
    if (verb.pass_name) argv.push_back(verb_name.data());
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    argv.push_back(nullptr);
    ::execv(program.c_str(), argv.data());
    complain(program + ": " + std::strerror(errno));
    return exit_failed;
}

int help(const std::vector<char*>& arguments) {
    if (arguments.empty()) return overview();
    const Verb* verb = find_verb(arguments[0]);
    if (verb == nullptr) return unknown(arguments[0]);
    if (verb->help.empty() && !verb->program.empty()) {
        char option[] = "--help";
        return hand_over(*verb, {option});
    }
    std::string text = "usage: cairn ";
    text += verb->synopsis;
    text += "\n\n";
    text += verb->summary;
    text += "\n";
    if (!verb->help.empty()) {
        text += "\n";
        text += verb->help;
    }
    return print(text) ? exit_ok : exit_failed;
}

int run(int argc, char** argv) {
    if (argc < 2) {
        static_cast<void>(overview());
        return exit_usage;
    }
    const std::string_view name = argv[1];
    std::vector<char*> arguments(argv + 2, argv + argc);
    if (name == "--version" || name == "-V" || name == "version")
        return print("cairn " CAIRN_VERSION "\n") ? exit_ok : exit_failed;
    if (name == "help" || name == "--help" || name == "-h") return help(arguments);
    const Verb* verb = find_verb(name);
    if (verb == nullptr) return unknown(name);
    const bool asks_help = !arguments.empty() &&
                           (std::strcmp(arguments[0], "--help") == 0 || std::strcmp(arguments[0], "-h") == 0);
    if (asks_help && !verb->help.empty()) return help({argv[1]});
    if (verb->name == "outside") return outside(argc - 1, argv + 1);
    if (verb->program.empty()) return launch(argc - 1, argv + 1);
    if (verb->name == "restart") leave_first_process();
    return hand_over(*verb, std::move(arguments));
}

}  // namespace
}  // namespace cairn::cli

int main(int argc, char** argv) {
    return cairn::cli::run(argc, argv);
}

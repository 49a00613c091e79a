#include "mpi/tool/launch.h"

#include <elf.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/layout.h"

namespace cairn::mpi::tool {
namespace {

std::string base_name(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

std::string real_path(const std::string& path) {
    char real[PATH_MAX];
    return ::realpath(path.c_str(), real) != nullptr ? real : "";
}

// As execvp finds it; "" if there is none.
std::string which(const std::string& name) {
    if (name.find('/') != std::string::npos) return real_path(name);
    const char* path = std::getenv("PATH");
    std::string rest = path != nullptr ? path : "/usr/bin:/bin";
    for (std::size_t begin = 0; begin <= rest.size();) {
        const std::size_t end = std::min(rest.find(':', begin), rest.size());
        const std::string each = rest.substr(begin, end - begin) + "/" + name;
        if (::access(each.c_str(), X_OK) == 0) return real_path(each);
        begin = end + 1;
    }
    return "";
}

// "mpich" or "openmpi" by the libraries that the file names; "" if it names none.
std::string linked_with(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    if (!bytes.starts_with(ELFMAG)) return "";
    // Names of needed libraries are whole strings of the dynamic string table.
    const auto has = [&](const char* name) {
        return bytes.find(std::string(1, '\0') + name + '\0') != std::string::npos;
    };
    if (has("libmpich.so.12") || has("libmpichfort.so.12")) return "mpich";
    if (has("libmpi.so.40") || has("libmpi_mpifh.so.40")) return "openmpi";
    return "";
}

}  // namespace

namespace {

// `cairn launch` went behind us: it launches what we become (cli/launch.cpp).
void put_launch_first(std::vector<std::string>& command) {
    const char* words = std::getenv("CAIRN_MPI_LAUNCH");
    if (words == nullptr) return;
    std::vector<std::string> first;
    for (std::string_view rest = words; !rest.empty();) {
        const std::size_t end = rest.find('\n');
        first.emplace_back(rest.substr(0, end));
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
    ::unsetenv("CAIRN_MPI_LAUNCH");
    command.insert(command.begin(), first.begin(), first.end());
}

}  // namespace

Result<std::string> find_mpi(const std::vector<std::string>& given) {
    // What `cairn launch` is to start: the first word that says which MPI it is of.
    std::vector<std::string> command = given;
    if (base_name(command[0]) == "cairn")
        for (std::size_t i = 2; i < given.size(); ++i) {
            const std::string path = which(given[i]), name = base_name(path);
            std::error_code ignored;
            if (!std::filesystem::is_regular_file(path, ignored)) continue;
            if (name.find("hydra") == std::string::npos && name.find("mpich") == std::string::npos &&
                name.find("orterun") == std::string::npos && name.find("openmpi") == std::string::npos &&
                linked_with(path).empty())
                continue;
            command = {given[i]};
            break;
        }
    const auto set = [](const char* name) { return std::getenv(name) != nullptr; };
    if (set("OMPI_COMM_WORLD_RANK")) return "openmpi";
    if (set("PMI_RANK") || set("PMI_FD")) return "mpich";
    const std::string path = which(command[0]);
    if (path.empty()) return fail("there is no program '{}'", command[0]);
    const std::string name = base_name(path);
    if (name.find("hydra") != std::string::npos || name.find("mpich") != std::string::npos) return "mpich";
    if (name.find("orterun") != std::string::npos || name.find("prterun") != std::string::npos ||
        name.find("openmpi") != std::string::npos)
        return "openmpi";
    if (std::string found = linked_with(path); !found.empty()) return found;
    return fail_code(ExitCode::usage, "which MPI does {} use? Say --mpi mpich or --mpi openmpi", command[0]);
}

Result<> run(Launch launch) {
    put_launch_first(launch.command);
    if (launch.mpi.empty()) {
        auto found = TRY(find_mpi(launch.command));
        launch.mpi = found;
    }
    std::string library = own_library();
    const std::string name = "libcairn-mpi-" + launch.mpi + ".so";
    library = library.substr(0, library.rfind('/') + 1) + name;
    if (::access(library.c_str(), R_OK) != 0)
        return fail_code(ExitCode::usage, "there is no {}: this cairn was built without {}", library,
                         launch.mpi);
    std::vector<std::string> passed = {"LD_PRELOAD", "CAIRN_MPI", "CAIRN_MPI_DIR"};
    const char* preload = std::getenv("LD_PRELOAD");
    const std::string preloaded =
        library + (preload != nullptr && *preload != 0 ? std::string(":") + preload : "");
    // Under mpiexec we may be called within what already has it.
    if (!launch.gdb && (preload == nullptr || std::strstr(preload, name.c_str()) == nullptr))
        ::setenv("LD_PRELOAD", preloaded.c_str(), 1);
    ::setenv("CAIRN_MPI", launch.job.c_str(), 1);
    ::setenv("CAIRN_MPI_DIR", launch.folder.c_str(), 1);
    for (const auto& [key, value] : launch.variables) {
        ::setenv(key.c_str(), value.c_str(), 1);
        passed.push_back(key);
    }
    const std::string path = which(launch.command[0]);
    if (path.empty()) return fail("there is no program '{}'", launch.command[0]);
    // orterun hands on to other hosts only what it is told to.
    if (base_name(path).find("orterun") != std::string::npos) {
        std::vector<std::string> words;
        for (const std::string& each : passed) {
            words.emplace_back("-x");
            words.push_back(each);
        }
        launch.command.insert(launch.command.begin() + 1, words.begin(), words.end());
    }
    if (launch.gdb) {
        // For the program only, and without a shell in between that would get it, too.
        std::vector<std::string> words = {"gdb",   "-q",
                                          "-iex",  "set startup-with-shell off",
                                          "-ex",   "set environment LD_PRELOAD " + preloaded,
                                          "--args"};
        launch.command.insert(launch.command.begin(), words.begin(), words.end());
    }
    std::vector<char*> arguments;
    for (std::string& word : launch.command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    return fail_errno("starting {}", launch.command[0]);
}

}  // namespace cairn::mpi::tool
